//! The common arguments and output of the commands that compare two versions of a protocol.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Failure, named_path, read_document};
use crate::compat::NotCompared;
use crate::generate::Options;
use crate::include;
use crate::source::{SourceId, Sources, Span};

/// The documents of two versions.
#[derive(Args, Debug)]
pub(super) struct Versions {
    /// A document of the old version.
    base: PathBuf,
    /// A document of the new version.
    new: PathBuf,
    /// Another document of BASE. May be repeated.
    #[arg(long = "base", value_name = "FILE")]
    more_base: Vec<PathBuf>,
    /// Another document of NEW. May be repeated.
    #[arg(long = "new", value_name = "FILE")]
    more_new: Vec<PathBuf>,
    /// Define a name for `#ifdef`. If documents use the name but do not define it, the name stands for VALUE,
    /// which is 1 by default.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Map a type of both versions to an existing Rust type.
    #[arg(long = "extern", value_name = "NAME=RUST::PATH", value_parser = named_path)]
    externs: Vec<(String, String)>,
}

impl Versions {
    /// Reads all documents and the files that they include. Also returns the ids of the documents and
    /// included files of each version.
    pub(super) fn read(&self) -> Result<(Sources, Vec<SourceId>, Vec<SourceId>), Failure> {
        let mut sources = Sources::default();
        let of_base = std::iter::once(&self.base).chain(&self.more_base);
        let base = of_base.clone().count();
        for path in of_base.chain(std::iter::once(&self.new)).chain(&self.more_new) {
            sources.add(read_document(path)?);
        }
        let ids = include::load(&mut sources, &self.define.iter().cloned().collect());
        let (of_base, of_new) = ids.split_at(base);
        let (base, new) = (sources.with_included(of_base.to_vec()), sources.with_included(of_new.to_vec()));
        Ok((sources, base, new))
    }

    pub(super) fn options(&self) -> Options {
        let externs = self.externs.iter().cloned().collect();
        let defined = self.define.iter().cloned().collect();
        Options { externs, defined, ..Options::module("compared") }
    }
}

/// A position in a document, as in JSON output.
#[derive(Default, Serialize)]
pub(super) struct Place {
    file: String,
    line: u32,
    column: u32,
}

impl Place {
    pub(super) fn of(sources: &Sources, span: Span) -> Self {
        let Some(source) = sources.get(span.source) else { return Place::default() };
        let at = source.line_column(span.start);
        Place { file: source.name().to_string_lossy().into_owned(), line: at.line, column: at.column }
    }
}

pub(super) fn place(sources: &Sources, span: Span) -> String {
    let Place { file, line, .. } = Place::of(sources, span);
    format!("{file}:{line}")
}

/// A definition that could not be compared. The `Display` form is a line of text.
#[derive(Serialize)]
pub(super) struct Omitted<'a> {
    name: &'a str,
    why: String,
    #[serde(flatten)]
    place: Place,
}

pub(super) fn omitted<'a>(sources: &Sources, one: &'a NotCompared) -> Omitted<'a> {
    Omitted { name: &one.name, why: one.why(), place: Place::of(sources, one.span) }
}

impl fmt::Display for Omitted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Omitted { name, why, place: Place { file, line, .. } } = self;
        let name = if name.is_empty() { "a definition" } else { name };
        writeln!(f, "not compared: {name} ({why}, {file}:{line})")
    }
}
