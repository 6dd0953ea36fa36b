//! Findings as text: the document's own line, a caret under the place, and what to do.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Label, Severity};
use crate::source::{Source, SourceId, Sources};

/// Renders findings for a person, in the order given, one blank line between two. The lines shown are
/// the documents' own, never the extracted text. `colour` adds terminal colours.
#[must_use]
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let texts: Vec<String> =
        diagnostics.iter().map(|found| format!("{}\n", renderer.render(&[group(found, sources)]))).collect();
    texts.join("\n")
}

fn group<'a>(found: &'a Diagnostic, sources: &'a Sources) -> Group<'a> {
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        level.primary_title(found.message.as_str()).id(found.code).elements(snippets(found, sources));
    if let Some(help) = &found.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    group
}

/// One snippet a document, the primary place's document first.
fn snippets<'a>(found: &'a Diagnostic, sources: &'a Sources) -> Vec<Snippet<'a, Annotation<'a>>> {
    let mut documents: Vec<SourceId> = vec![found.primary.span.source];
    for label in &found.related {
        if !documents.contains(&label.span.source) {
            documents.push(label.span.source);
        }
    }
    documents.iter().filter_map(|id| Some(snippet(found, *id, sources.get(*id)?))).collect()
}

/// The lines from the first place to the last, so that the rest of a long document costs nothing.
fn snippet<'a>(found: &'a Diagnostic, id: SourceId, source: &'a Source) -> Snippet<'a, Annotation<'a>> {
    let primary = Some(&found.primary).filter(|label| label.span.source == id);
    let related = found.related.iter().filter(|label| label.span.source == id);
    let labels = primary
        .map(|label| (AnnotationKind::Primary, label))
        .into_iter()
        .chain(related.map(|label| (AnnotationKind::Context, label)));
    let places: Vec<(AnnotationKind, &Label, Range<usize>)> =
        labels.map(|(kind, label)| (kind, label, place(label, source.text()))).collect();
    let text = source.text();
    let first = places.iter().map(|(_, _, place)| place.start).min().unwrap_or(0);
    let last = places.iter().map(|(_, _, place)| place.end).max().unwrap_or(0);
    let from = text.get(..first).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let to = text.get(last..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| last + end);
    let line = source.line_column(u32::try_from(from).unwrap_or(u32::MAX)).line;
    let annotations = places.into_iter().map(|(kind, label, place)| {
        let annotation = kind.span(place.start - from..place.end - from);
        if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
    });
    Snippet::source(text.get(from..to).unwrap_or(""))
        .path(source.name().to_string_lossy().into_owned())
        .line_start(line as usize)
        .annotations(annotations)
}

/// A label's place in the text. One line is shown: a place that runs over several is cut at its first line's end.
fn place(label: &Label, text: &str) -> Range<usize> {
    let start = boundary(text, label.span.start as usize);
    let line_end =
        text.get(start..).and_then(|rest| rest.find(['\n', '\r'])).map_or(text.len(), |end| start + end);
    let end = boundary(text, (label.span.end as usize).min(line_end)).max(start);
    start..end
}

/// The nearest place at or before `offset` where a character begins.
fn boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
