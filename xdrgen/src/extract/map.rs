//! Maps each byte of an extracted text to its position in the document.

use std::ops::Range;

use crate::source::{SourceId, Span, narrow};

/// A run of extracted bytes that are contiguous in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The offset of the run's first byte in the extracted text.
    text: u32,
    /// The offset of the run's first byte in the document.
    document: u32,
    /// The length in bytes. Text that was inserted after the run, and is not in the document, maps to the
    /// run's end.
    length: u32,
}

/// Maps offsets in an extracted text to offsets in the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    source: SourceId,
    runs: Vec<Run>,
}

impl Map {
    #[must_use]
    pub(crate) fn new(source: SourceId) -> Self {
        Map { source, runs: Vec::new() }
    }

    /// Returns the document offset of a byte of the extracted text. The end of the text maps to the
    /// document offset after the last extracted byte.
    #[must_use]
    pub fn document(&self, offset: u32) -> u32 {
        self.run(offset).map_or_else(
            || self.runs.first().map_or(0, |run| run.document),
            |run| run.document + (offset - run.text).min(run.length),
        )
    }

    /// Maps a range of the extracted text to the document. An empty range stays empty.
    #[must_use]
    pub fn span(&self, text: Range<u32>) -> Span {
        let start = self.document(text.start);
        let last = text.end.checked_sub(1).filter(|last| *last >= text.start);
        let end = last.map_or(start, |last| {
            let copied = self.run(last).is_some_and(|run| last - run.text < run.length);
            self.document(last) + u32::from(copied)
        });
        Span { source: self.source, start, end: end.max(start) }
    }

    pub(crate) fn source(&self) -> SourceId {
        self.source
    }

    pub(crate) fn places(&self) -> Places<'_> {
        Places { map: self, next: 0 }
    }

    /// Returns the run that contains a byte, or else the last run before the byte.
    fn run(&self, offset: u32) -> Option<&Run> {
        let index = self.runs.partition_point(|run| run.text <= offset);
        self.runs.get(index.checked_sub(1)?)
    }

    /// Maps `length` bytes at offset `text` to offset `document`. Calls must be in ascending order of
    /// `text`.
    pub(crate) fn push(&mut self, text: usize, document: usize, length: usize) {
        let run = Run { text: narrow(text), document: narrow(document), length: narrow(length) };
        match self.runs.last_mut() {
            Some(last)
                if last.text + last.length == run.text && last.document + last.length == run.document =>
            {
                last.length += run.length;
            }
            _ => self.runs.push(run),
        }
    }
}

/// Finds document positions for ascending text offsets, without a search for each offset.
pub(crate) struct Places<'m> {
    map: &'m Map,
    /// The index of the first run after the last requested offset.
    next: usize,
}

impl Places<'_> {
    /// Returns the document offsets of the start and the end of a nonempty range of the extracted text, like
    /// [`Map::span`]. Ranges must be requested in ascending order.
    pub(crate) fn of(&mut self, text: Range<u32>) -> (u32, u32) {
        let run = self.advance(text.start);
        let containing = run.filter(|run| text.end <= run.text + run.length);
        match containing {
            Some(run) => (run.document + (text.start - run.text), run.document + (text.end - run.text)),
            None => {
                let span = self.map.span(text);
                (span.start, span.end)
            }
        }
    }

    /// Like `Map::run`, but only for ascending offsets.
    fn advance(&mut self, offset: u32) -> Option<&Run> {
        while self.map.runs.get(self.next).is_some_and(|run| run.text <= offset) {
            self.next += 1;
        }
        self.map.runs.get(self.next.checked_sub(1)?)
    }
}
