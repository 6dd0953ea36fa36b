//! Findings as text: the line of the document, a caret under the span, and the help.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use super::plain::{SIDE, boundary, range};
use super::{Diagnostic, Severity, Text};
use crate::source::{Source, SourceId, Sources, narrow};

/// Renders findings for human readers in the given order, separated by blank lines. The lines shown are
/// those of the document, not of the extracted text. `colour` adds terminal colors.
#[must_use]
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let one = |found: &Diagnostic| format!("{}\n", renderer.render(&[group(found, &found.text(), sources)]));
    diagnostics.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn group<'a>(found: &Diagnostic, text: &'a Text, sources: &'a Sources) -> Group<'a> {
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        level.primary_title(text.message.as_str()).id(found.code()).elements(pictures(text, sources));
    if let Some(help) = &text.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    group
}

/// Returns the excerpts that contain the spans, grouped by document. The document of the primary span comes
/// first. Nearby spans in one document share an excerpt.
fn pictures<'a>(found: &'a Text, sources: &'a Sources) -> Vec<Element<'a>> {
    let mut documents: Vec<SourceId> = vec![found.primary.span.source];
    for label in &found.related {
        if !documents.contains(&label.span.source) {
            documents.push(label.span.source);
        }
    }
    let mut elements = Vec::new();
    for (id, source) in documents.iter().filter_map(|id| Some((*id, sources.get(*id)?))) {
        let mut groups = nearby_spans(found, id, source.text());
        groups.sort_by_key(|group| !group.iter().any(|place| place.kind == AnnotationKind::Primary));
        groups.into_iter().for_each(|group| picture(group, source, &mut elements));
    }
    elements
}

/// A label of a finding, with its byte range in the document.
struct Place<'a> {
    kind: AnnotationKind,
    text: &'a str,
    range: Range<usize>,
}

/// Maximum distance in bytes between neighboring spans of one excerpt.
const NEAR: usize = 4096;

/// Returns the spans in a document, grouped by proximity.
fn nearby_spans<'a>(found: &'a Text, id: SourceId, text: &str) -> Vec<Vec<Place<'a>>> {
    let primary = std::iter::once((AnnotationKind::Primary, &found.primary));
    let labels = primary.chain(found.related.iter().map(|label| (AnnotationKind::Context, label)));
    let labels = labels.filter(|(_, label)| label.span.source == id);
    let mut places: Vec<Place<'_>> =
        labels.map(|(kind, label)| Place { kind, text: &label.text, range: range(label, text) }).collect();
    places.sort_by_key(|place| place.range.start);
    let mut groups: Vec<Vec<Place<'_>>> = Vec::new();
    for place in places {
        let last = groups.last_mut().filter(|group| {
            group.last().is_some_and(|last| place.range.start.saturating_sub(last.range.end) <= NEAR)
        });
        match last {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups
}

/// Adds an excerpt with the lines from the first span to the last. Shows at most [`SIDE`] bytes before the
/// first span and after the last span.
fn picture<'a>(group: Vec<Place<'a>>, source: &'a Source, elements: &mut Vec<Element<'a>>) {
    let text = source.text();
    let first = group.iter().map(|place| place.range.start).min().unwrap_or(0);
    let last = group.iter().map(|place| place.range.end).max().unwrap_or(0);
    let side = boundary(text, first.saturating_sub(SIDE));
    let begin = text.get(side..first).and_then(|before| before.rfind('\n')).map(|end| side + end + 1);
    let from = begin.unwrap_or(side);
    let side = boundary(text, last.saturating_add(SIDE));
    let to = text.get(last..side).and_then(|rest| rest.find('\n')).map_or(side, |end| last + end);
    let name = source.name().to_string_lossy();
    let line = source.line_column(narrow(from)).line as usize;
    let lines = text.get(from..to).unwrap_or("");
    // If a line ends with CR and LF, the CR is not part of the line.
    let shown = lines.strip_suffix('\r').unwrap_or(lines).replace("\r\n", "\n");
    let within = |offset: usize| {
        let before = lines.get(..offset.saturating_sub(from)).unwrap_or(lines);
        (before.len() - before.matches("\r\n").count()).min(shown.len())
    };
    let ranges: Vec<_> =
        group.iter().map(|place| within(place.range.start)..within(place.range.end)).collect();
    let mut snippet = Snippet::source(shown).line_start(line);
    if begin.is_none() && from > 0 {
        // The excerpt does not begin at the start of its line. The renderer would count columns from the
        // start of the excerpt, so the position is given explicitly.
        let shown = group.iter().find(|place| place.kind == AnnotationKind::Primary).or(group.first());
        let at = source.line_column(narrow(shown.map_or(first, |place| place.range.start)));
        let origin = Origin::path(name).line(at.line as usize).char_column(at.column as usize);
        elements.push(origin.into());
    } else {
        snippet = snippet.path(name);
    }
    let annotations = group.into_iter().zip(ranges).map(|(place, range)| {
        let annotation = place.kind.span(range);
        if place.text.is_empty() { annotation } else { annotation.label(place.text) }
    });
    elements.push(snippet.annotations(annotations).into());
}
