//! Reports conditions that test a name that only an included document defines. In the condition, the name
//! counts as undefined, since a `#define` applies only to its own document.

use std::collections::BTreeSet;

use crate::diag::{Diagnostic, PreprocessorKind};
use crate::hash::{HashMap, HashSet};
use crate::keywords::{before_comment, is_word, words};
use crate::source::{SourceId, Sources, Span};

/// Warns about conditions that follow the first `#include` and test a name that only an included document
/// defines. Each name causes at most one warning per document. Names defined by `-D` or earlier in the
/// document itself are exempt.
pub(crate) fn report(
    sources: &Sources,
    which: impl Fn(SourceId) -> bool,
    defined: &BTreeSet<String>,
    found: &mut Vec<Diagnostic>,
) {
    let mut included: HashMap<SourceId, Vec<SourceId>> = HashMap::default();
    let mut first: HashMap<SourceId, u32> = HashMap::default();
    for include in sources.includes() {
        let Ok(file) = include.file else { continue };
        included.entry(include.span.source).or_default().push(file);
        first.entry(include.span.source).or_insert(include.span.end);
    }
    let files: BTreeSet<SourceId> = included.values().flatten().copied().collect();
    let mut definitions: HashMap<&str, Vec<Span>> = HashMap::default();
    for file in files {
        for (name, span) in names(sources, file, &["define"]) {
            definitions.entry(name).or_default().push(span);
        }
    }
    let given = |name: &str| defined.iter().any(|one| one.split('=').next() == Some(name));
    for (id, _) in sources.iter().filter(|(id, _)| which(*id)) {
        let Some(first_include) = first.get(&id) else { continue };
        let mut own: HashMap<&str, u32> = HashMap::default();
        for (name, span) in names(sources, id, &["define"]) {
            own.entry(name).or_insert(span.start);
        }
        let mut all = None;
        let mut reported = HashSet::default();
        for (name, span) in names(sources, id, &["ifdef", "ifndef", "if", "elif"]) {
            let Some(places) = definitions.get(name) else { continue };
            let is_own = own.get(name).is_some_and(|at| *at < span.start);
            if span.start < *first_include || is_own || given(name) {
                continue;
            }
            let all = all.get_or_insert_with(|| reached(id, &included));
            let place = places.iter().find(|place| place.source != id && all.contains(&place.source));
            if let Some(place) = place.filter(|_| reported.insert(name)) {
                found
                    .push(PreprocessorKind::UnseenDefine { name: name.to_owned(), defined: *place }.at(span));
            }
        }
    }
}

fn reached(document: SourceId, included: &HashMap<SourceId, Vec<SourceId>>) -> HashSet<SourceId> {
    let mut all = HashSet::default();
    let mut open = vec![document];
    while let Some(next) = open.pop() {
        open.extend(included.get(&next).into_iter().flatten().filter(|file| all.insert(**file)));
    }
    all
}

/// Returns the names in a document's preprocessor lines with a directive from `directives`. For a `#define`,
/// returns only the first name.
fn names<'a>(
    sources: &'a Sources,
    id: SourceId,
    directives: &'a [&str],
) -> impl Iterator<Item = (&'a str, Span)> {
    let text = sources.get(id).map_or("", |source| source.text());
    let lines = text.split_inclusive('\n').filter_map(move |line| {
        let directive = line.trim_start().trim_start_matches("///").trim_start().strip_prefix('#')?;
        let directive = directive.trim_start();
        let word = directive.split(|c: char| !c.is_ascii_alphabetic()).next()?;
        let rest = before_comment(directive.get(word.len()..)?);
        let found = words(rest).filter(|name| *name != "defined" && is_word(name));
        let count = if word == "define" { 1 } else { usize::MAX };
        directives.contains(&word).then(|| found.take(count))
    });
    lines.flatten().map(move |name| {
        let start = name.as_ptr() as usize - text.as_ptr() as usize;
        (name, Span::of(id, start..start + name.len()))
    })
}
