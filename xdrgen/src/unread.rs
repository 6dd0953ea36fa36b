//! Names that unparsable text may define. After a syntax error, these names are not reported as undefined,
//! except in a compilation with `keep_going`.

use crate::diag::{self, Diagnostic};
use crate::keywords::words;
use crate::namespace::last;
use crate::resolve::Document;
use crate::source::{Sources, Span};

/// All words of unparsed text, sorted.
pub(crate) struct Unread<'s> {
    words: Vec<&'s str>,
}

impl<'s> Unread<'s> {
    /// Collects the words of unparsed text if the documents have errors. Otherwise, collects no words,
    /// because omitted definitions have their own findings.
    pub(crate) fn of(documents: &[Document], sources: &'s Sources, found: &[Diagnostic]) -> Self {
        let spans = documents.iter().flat_map(|document| &document.specification.unread);
        let spans = spans.filter(|_| diag::has_errors(found));
        let mut words: Vec<&str> = spans.flat_map(|span| words(text(sources, *span))).collect();
        words.sort_unstable();
        words.dedup();
        Unread { words }
    }

    /// Returns true if a finding reports an undefined name that the unparsed text may define.
    pub(crate) fn may_have(&self, found: &Diagnostic) -> bool {
        !self.words.is_empty() && found.kind.missing().iter().any(|name| self.has(last(name)))
    }

    /// Returns true if a word begins with the name. The word may be longer, since a separator may be missing.
    fn has(&self, name: &str) -> bool {
        let at = self.words.partition_point(|word| *word < name);
        self.words.get(at).is_some_and(|word| word.starts_with(name))
    }
}

fn text(sources: &Sources, span: Span) -> &str {
    let text = sources.get(span.source).map_or("", |source| source.text());
    let end = (span.end as usize).min(text.len());
    text.get(span.start as usize..end).unwrap_or("")
}
