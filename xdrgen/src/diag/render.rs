//! Findings as text: the document's own line, a caret under the place, and what to do.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Label, Severity};
use crate::source::{Source, SourceId, Sources};

/// Renders findings for a person, in the order given, one blank line between two. The lines shown are
/// the documents' own, never the extracted text. `colour` adds terminal colours.
#[must_use]
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    diagnostics.iter().map(|found| format!("{}\n", renderer.render(&[group(found, sources)]))).collect()
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

fn snippet<'a>(found: &'a Diagnostic, id: SourceId, source: &'a Source) -> Snippet<'a, Annotation<'a>> {
    let primary = Some(&found.primary).filter(|label| label.span.source == id);
    let related = found.related.iter().filter(|label| label.span.source == id);
    let annotations = primary
        .map(|label| annotation(AnnotationKind::Primary, label, source))
        .into_iter()
        .chain(related.map(|label| annotation(AnnotationKind::Context, label, source)));
    Snippet::source(source.text()).path(source.name().to_string_lossy().into_owned()).annotations(annotations)
}

fn annotation<'a>(kind: AnnotationKind, label: &'a Label, source: &Source) -> Annotation<'a> {
    let text = source.text();
    let start = boundary(text, label.span.start as usize);
    // One line is shown: a place that runs over several is cut at its first line's end.
    let line_end =
        text.get(start..).and_then(|rest| rest.find(['\n', '\r'])).map_or(text.len(), |end| start + end);
    let end = boundary(text, (label.span.end as usize).min(line_end)).max(start);
    let annotation = kind.span(start..end);
    if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
}

/// The nearest place at or before `offset` where a character begins.
fn boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
