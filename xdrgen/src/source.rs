//! Documents and positions in them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::hash::{HashMap, HashSet};

pub(crate) const STDIN: &str = "<stdin>";

/// Identifies a document or binding file of a run: its index in [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A byte range of an original document (before extraction) or of a binding file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The document or binding file.
    pub source: SourceId,
    /// The offset of the range's first byte.
    pub start: u32,
    /// The offset after the range's last byte.
    pub end: u32,
}

impl Span {
    /// The position of findings outside documents, for example about an option.
    pub const NOWHERE: Span = Span { source: SourceId(u32::MAX), start: 0, end: 0 };

    pub(crate) fn of(source: SourceId, range: Range<usize>) -> Span {
        Span { source, start: narrow(range.start), end: narrow(range.end) }
    }

    /// Returns the span from the start of `self` to the end of `other`, which follows `self` in the same
    /// document.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start, end: other.end.max(self.start) }
    }
}

/// Converts an offset or a count to 32 bits, saturating. The command line rejects files of 4 GiB or more.
pub(crate) fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// A line and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
}

/// The kind of a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A document that contains XDR.
    Document,
    /// A binding file.
    Binding,
}

/// A document or binding file: its name and its text.
#[derive(Clone, Debug)]
pub struct Source {
    name: PathBuf,
    kind: Kind,
    text: String,
    /// The line starts are computed on first use, since most documents have no findings.
    line_starts: OnceLock<Vec<u32>>,
}

impl Source {
    /// Creates a source: a binding file if its name ends in `.toml`, otherwise a document.
    #[must_use]
    pub fn new(name: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let name = name.into();
        let is_binding = name.extension().is_some_and(|extension| extension == "toml");
        Source::of_kind(if is_binding { Kind::Binding } else { Kind::Document }, name, text.into())
    }

    /// Creates a binding file, even if its name does not end in `.toml`.
    #[must_use]
    pub fn binding(name: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Source::of_kind(Kind::Binding, name.into(), text.into())
    }

    fn of_kind(kind: Kind, name: PathBuf, text: String) -> Self {
        Source { name, kind, text, line_starts: OnceLock::new() }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let ends = self.text.match_indices('\n').map(|(end, _)| narrow(end + 1));
            std::iter::once(0).chain(ends).collect()
        })
    }

    /// Returns the line and column of a byte offset. An offset past the end counts as the end.
    #[must_use]
    pub fn line_column(&self, offset: u32) -> LineColumn {
        let line_starts = self.line_starts();
        let line = line_starts.partition_point(|start| *start <= offset).max(1);
        let start = line_starts.get(line - 1).copied().unwrap_or(0) as usize;
        let end = (offset as usize).min(self.text.len());
        let column = self.text.get(start..end).map_or(0, |before| before.chars().count()) + 1;
        LineColumn { line: narrow(line), column: narrow(column) }
    }
}

/// Determines how errors in a document are handled, since some documents cannot be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The author can correct the document: mistakes are errors.
    Own,
    /// A published RFC with marked or plain XDR. It cannot be corrected: definitions with errors are
    /// omitted with a warning. An undefined name is an error, since another document must define it.
    Published,
    /// Examples in the prose of a published RFC, which were never compiled: definitions with errors are
    /// omitted with a warning.
    Example,
}

/// The reason why an included file is not a document of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The file's name is empty.
    Unnamed,
    /// The file does not exist: an error if the document uses an undefined name, otherwise a warning.
    Missing(PathBuf),
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error from the operating system.
        error: String,
    },
    /// The path is not a regular file but, for example, a directory, a pipe or a device.
    NoFile(PathBuf),
    /// The run already includes the maximum number of files.
    TooMany {
        /// The maximum number of files.
        max: usize,
    },
    /// The file is too long.
    TooLong {
        /// The file.
        path: PathBuf,
        /// The maximum length of a file, in MiB.
        mib: u64,
    },
    /// The included files of the run are too long in total.
    TooMuch {
        /// The maximum total length, in MiB.
        mib: u64,
    },
    /// The file is not UTF-8.
    NotUtf8(PathBuf),
}

/// An `#include` in a document.
#[derive(Clone, Debug)]
pub struct Include {
    /// The position of the file's name.
    pub span: Span,
    /// The file's name as written in the document.
    pub name: String,
    /// The document in the file, or the reason why the file is not a document of the run.
    pub file: Result<SourceId, Refused>,
}

/// The documents and binding files of a run.
///
/// ```
/// use rpcrdma_xdrgen::source::{Source, Sources};
///
/// let mut sources = Sources::default();
/// let id = sources.add(Source::new("kv.x", "const A = 1;\nconst B = 2;"));
/// let position = sources.get(id).map(|source| source.line_column(19));
/// assert_eq!(position.map(|at| (at.line, at.column)), Some((2, 7)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sources {
    all: Vec<Source>,
    includes: Vec<Include>,
}

impl Sources {
    /// Adds a document or a binding file. Returns its id.
    pub fn add(&mut self, source: Source) -> SourceId {
        self.all.push(source);
        SourceId(narrow(self.all.len() - 1))
    }

    /// Returns the source with this id, if the id belongs to this run.
    #[must_use]
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.all.get(id.0 as usize)
    }

    /// Returns all documents and binding files with their ids, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &Source)> {
        self.all.iter().zip(0..).map(|(source, id)| (SourceId(id), source))
    }

    /// Records an `#include`.
    pub fn include(&mut self, include: Include) {
        self.includes.push(include);
    }

    /// Returns the `#include`s of all documents.
    #[must_use]
    pub fn includes(&self) -> &[Include] {
        &self.includes
    }

    /// Moves included documents before the documents that include them, except in a cycle. Returns all new
    /// ids, in the order of the old ids.
    pub(crate) fn sort_included(&mut self) -> Vec<SourceId> {
        let mut included: HashMap<SourceId, Vec<SourceId>> = HashMap::default();
        for Include { span, file, .. } in self.includes.iter().rev() {
            included.entry(span.source).or_default().extend(file.as_ref().ok());
        }
        let mut open: Vec<_> = self.iter().map(|(id, _)| (id, false)).collect();
        open.reverse();
        let mut all: Vec<_> = std::mem::take(&mut self.all).into_iter().map(Some).collect();
        let mut ids = vec![SourceId::default(); all.len()];
        // Each document is visited twice: first to open the documents that it includes, and again after
        // those documents have been processed.
        let mut visited = HashSet::default();
        while let Some((id, is_ready)) = open.pop() {
            if is_ready {
                let source = all.get_mut(id.0 as usize).and_then(Option::take);
                if let (Some(source), Some(new)) = (source, ids.get_mut(id.0 as usize)) {
                    *new = self.add(source);
                }
            } else if visited.insert(id) {
                open.push((id, true));
                open.extend(included.remove(&id).into_iter().flatten().map(|file| (file, false)));
            }
        }
        let moved = |id: &mut SourceId| *id = ids.get(id.0 as usize).copied().unwrap_or(*id);
        for include in &mut self.includes {
            moved(&mut include.span.source);
            include.file.as_mut().into_iter().for_each(moved);
        }
        ids
    }

    /// Returns documents together with all documents that they include, directly or indirectly, in the order
    /// of the run.
    #[must_use]
    pub fn with_included(&self, mut documents: Vec<SourceId>) -> Vec<SourceId> {
        let mut at = 0;
        while let Some(&document) = documents.get(at) {
            let of = self.includes.iter().filter(|include| include.span.source == document);
            for included in of.filter_map(|include| include.file.as_ref().ok().copied()) {
                if !documents.contains(&included) {
                    documents.push(included);
                }
            }
            at += 1;
        }
        documents.sort();
        documents
    }
}
