//! Arguments of commands that compare two versions of a protocol.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, named_path, read_document};
use crate::generate::Options;
use crate::include;
use crate::source::{SourceId, Sources};

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
    /// Define a name for `#ifdef`. The name is also a constant if the documents use but do not define it.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Map a type of both versions to an existing Rust type.
    #[arg(long = "extern", value_name = "NAME=RUST::PATH", value_parser = named_path)]
    externs: Vec<(String, String)>,
}

impl Versions {
    /// Reads all documents. Also returns the ids of each version's documents.
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
