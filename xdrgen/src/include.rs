//! Included documents: `#include "sibling.x"`.
//!
//! Compilation itself reads no files. [`load`] runs before it and asks its caller for each file once, so cycles end.
//! `#include <...>` and headers of C (`.h`) are left to C.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::diag::{Diagnostic, Severity};
use crate::parse::{self, Options};
use crate::source::{Include, Kind, Source, SourceId, Sources, Span};

/// How many files a run may include.
const MAX_INCLUDED: usize = 1000;

/// How many findings of missing names one missing file explains.
const NAMED: usize = 4;

/// Adds the documents that others include, and those that these include. A file's path is relative to the document that
/// includes it; where it cannot be read, a given document with its file name stands for it. `defined` answers `#ifdef`.
pub fn load(
    sources: &mut Sources,
    defined: &BTreeSet<String>,
    mut read: impl FnMut(&Path) -> io::Result<String>,
) {
    let options = Options { defined: defined.clone() };
    let given = sources.iter().count();
    for id in (0..).map(SourceId) {
        let Some(source) = sources.get(id) else { break };
        if source.kind() == Kind::Binding || !may_include(source.text()) {
            continue;
        }
        let folder = source.name().parent().unwrap_or(Path::new("")).to_owned();
        let included = parse::includes(&parse::extract(id, source), &options);
        for (name, span) in included {
            let path = normal(&folder.join(&name));
            let document = |fits: &dyn Fn(SourceId, &Path) -> bool| {
                let mut all = sources.iter().filter(|(_, source)| source.kind() == Kind::Document);
                all.find(|(id, source)| fits(*id, source.name())).map(|(id, _)| id)
            };
            let known = document(&|_, name| normal(name) == path);
            let named = document(&|id, name| (id.0 as usize) < given && name.file_name() == path.file_name());
            let room = sources.iter().count() < given + MAX_INCLUDED;
            let text = if room && known.is_none() { read(&path).ok() } else { None };
            let added = text.map(|text| sources.add(Source::new(path.clone(), text)));
            sources.include(Include { span, path, source: known.or(added).or(named) });
        }
    }
}

/// Whether a text has an `#include` at all. Most have none, and need not be read twice.
fn may_include(text: &str) -> bool {
    text.match_indices("include").any(|(at, word)| {
        let is_directive =
            text.get(..at).is_some_and(|before| before.trim_end_matches([' ', '\t']).ends_with('#'));
        let after = text.get(at + word.len()..).unwrap_or("");
        is_directive && after.trim_start_matches([' ', '\t']).starts_with('"')
    })
}

/// A path without `.` and, as far as names tell, without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.iter().collect()
}

/// Reports the files that could not be read. Such a file is an error if the document lacks a name, which the file may
/// define: that is not reported then.
pub(crate) fn report(sources: &Sources, which: impl Fn(SourceId) -> bool, found: &mut Vec<Diagnostic>) {
    for include in sources.includes().iter().filter(|include| include.source.is_none()) {
        let document = include.span.source;
        if !which(document) {
            continue;
        }
        let lacks = |found: &Diagnostic| {
            found.is_error() && found.primary.span.source == document && matches!(found.code, "X200" | "X202")
        };
        let names: Vec<Span> =
            found.iter().filter(|found| lacks(found)).map(|one| one.primary.span).collect();
        found.retain(|found| !lacks(found));
        let name =
            include.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let severity = if names.is_empty() { Severity::Warning } else { Severity::Error };
        let message = format!("cannot read the included file `{name}`");
        let mut missing = Diagnostic::error("X004", include.span, message)
            .with_label(format!("searched at `{}`", include.path.display()))
            .with_help(
                "a path is relative to the document; or name the file as one more document of the run",
            );
        for span in names.into_iter().take(NAMED) {
            missing = missing.with_related(span, "not defined without it");
        }
        found.push(Diagnostic { severity, ..missing });
    }
}
