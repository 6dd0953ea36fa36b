//! Included documents: `#include "sibling.x"`.
//!
//! Compilation itself reads no files. [`load`] runs before compilation and reads each file once, even if
//! includes are cyclic. `#include <...>`, C files (such as `.h` and `.c`) and `%#include` are ignored.

pub(crate) mod unseen;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use crate::diag::{self, Diagnostic, DocumentKind, Excerpt, MeaningKind};
use crate::hash::HashMap;
use crate::parse::{self, ParseOptions};
use crate::source::{Include, Kind, Refused, Source, SourceId, Sources, Span};

/// Maximum number of included files per run.
const MAX_INCLUDED: usize = 1000;

/// Maximum length of an included file in MiB.
const MAX_FILE: u64 = 16;

/// Maximum total length of included files per run in MiB.
const MAX_TOTAL: u64 = 64;

/// Maximum number of undefined names shown with one missing file.
const NAMED: usize = 4;

/// Adds included documents recursively. The path of a file is relative to the including document. If the file
/// is missing or cannot be read, an initial document of `sources` with the same file name is used instead.
/// `defined` contains the names that are defined for conditions such as `#ifdef`, in the form of `-D`: `NAME`
/// or `NAME=VALUE`.
///
/// An included document precedes the documents that include it, except in a cycle. Returns the new ids of the
/// initial sources, in order.
pub fn load(sources: &mut Sources, defined: &BTreeSet<String>) -> Vec<SourceId> {
    let options = ParseOptions { defined: defined.clone(), ..ParseOptions::default() };
    let given = sources.iter().count();
    let mut reader = Reader::default();
    let mut named = HashMap::default();
    for (id, source) in sources.iter().filter(|(_, source)| source.kind() == Kind::Document) {
        reader.known.entry(identity(source.name())).or_insert(id);
        if let Some(name) = source.name().file_name() {
            named.entry(name.to_owned()).or_insert(id);
        }
    }
    for id in (0..).map(SourceId) {
        let Some(source) = sources.get(id) else { break };
        if source.kind() == Kind::Binding || !may_include(source.text()) {
            continue;
        }
        let folder = source.name().parent().unwrap_or(Path::new("")).to_owned();
        for (name, span) in parse::includes(&parse::extract(id, source), &options) {
            let path = folder.join(&name);
            let file = reader.file(&name, &path, sources).or_else(|refused| {
                let is_unread = matches!(refused, Refused::Missing(_) | Refused::Unreadable { .. });
                let name = path.file_name().filter(|_| is_unread);
                let replacement = name.and_then(|name| named.get(name));
                replacement.copied().ok_or(refused)
            });
            sources.include(Include { span, name, file });
        }
    }
    let ids = sources.sort_included();
    ids.into_iter().take(given).collect()
}

#[derive(Default)]
struct Reader {
    known: HashMap<PathBuf, SourceId>,
    files: usize,
    bytes: u64,
}

impl Reader {
    fn file(&mut self, name: &str, path: &Path, sources: &mut Sources) -> Result<SourceId, Refused> {
        if name.is_empty() {
            return Err(Refused::Unnamed);
        }
        let identity = identity(path);
        if let Some(known) = self.known.get(&identity) {
            return Ok(*known);
        }
        let text = self.read(path)?;
        // With symbolic links, the path without `..` may lead to another file.
        let short = normal(path);
        let name = if self::identity(&short) == identity { short } else { path.to_owned() };
        let id = sources.add(Source::new(name, text));
        self.known.insert(identity, id);
        Ok(id)
    }

    fn read(&mut self, path: &Path) -> Result<String, Refused> {
        let unread = |error: io::Error| match error.kind() {
            // A file with an invalid name cannot exist.
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput => Refused::Missing(path.to_owned()),
            _ => Refused::Unreadable { path: path.to_owned(), error: error.to_string() },
        };
        // Opening a pipe or a device may block.
        if !path.metadata().map_err(unread)?.is_file() {
            return Err(Refused::NoFile(path.to_owned()));
        }
        if self.files == MAX_INCLUDED {
            return Err(Refused::TooMany { max: MAX_INCLUDED });
        }
        let room = (MAX_FILE << 20).min((MAX_TOTAL << 20).saturating_sub(self.bytes));
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(room + 1).read_to_end(&mut bytes)).map_err(unread)?;
        let length = bytes.len() as u64;
        if length > MAX_FILE << 20 {
            return Err(Refused::TooLong { path: path.to_owned(), mib: MAX_FILE });
        }
        if length > room {
            return Err(Refused::TooMuch { mib: MAX_TOTAL });
        }
        let text = String::from_utf8(bytes).map_err(|_| Refused::NotUtf8(path.to_owned()))?;
        self.files += 1;
        self.bytes += length;
        Ok(text)
    }
}

fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| normal(path))
}

/// Returns true if a text may contain an `#include "..."`. Most texts contain none and need not be parsed.
fn may_include(text: &str) -> bool {
    text.match_indices("include").any(|(at, word)| {
        let is_directive =
            text.get(..at).is_some_and(|before| before.trim_end_matches([' ', '\t']).ends_with('#'));
        let after = text.get(at + word.len()..).unwrap_or("");
        is_directive && after.trim_start_matches([' ', '\t']).starts_with('"')
    })
}

/// Removes each `.` component from a path. Also removes each `..` component that follows a name, together
/// with that name. Other `..` components remain.
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

/// Reports refused files. A missing file is only a warning, unless the document uses an undefined name,
/// which the file may define. If `explains` is set, undefined names of a document with a refused file are
/// not reported separately.
pub(crate) fn report(
    sources: &Sources,
    which: impl Fn(SourceId) -> bool,
    explains: bool,
    found: &mut Vec<Diagnostic>,
) {
    let refused =
        sources.includes().iter().filter_map(|include| Some((include, include.file.as_ref().err()?)));
    let refused: Vec<_> = refused.filter(|(include, _)| which(include.span.source)).collect();
    let mut lacking: HashMap<SourceId, Vec<Span>> =
        refused.iter().map(|(include, _)| (include.span.source, Vec::new())).collect();
    found.retain(|found| {
        let is_missing = matches!(
            found.kind,
            diag::Kind::Meaning(MeaningKind::NoType { .. } | MeaningKind::NoValue { .. })
        );
        if !found.is_error() || !is_missing {
            return true;
        }
        let Some(names) = lacking.get_mut(&found.span.source) else { return true };
        names.push(found.span);
        !explains
    });
    for (Include { span, name, .. }, why) in refused {
        let names = lacking.get(&span.source).map_or(&[][..], Vec::as_slice);
        let lacking = Excerpt::of(names.iter().copied(), NAMED);
        let is_warning = matches!(why, Refused::Missing(_)) && names.is_empty();
        let missing = DocumentKind::NotIncluded { name: name.clone(), why: why.clone(), lacking };
        found.push(missing.at(*span).weakened_if(is_warning));
    }
}
