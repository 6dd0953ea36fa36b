//! The options of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::ir::Data;
use crate::names::Names;
use crate::parse::Dialect;

/// The files to emit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// One file, `NAME.rs`: a module, or a file for `include!`. The file uses `Vec` and `Box` of the standard
    /// library or of `alloc`.
    Module {
        /// The file's name without `.rs`.
        name: String,
        /// True if the standard library is available.
        std: bool,
    },
    /// Files for a directory of modules: `mod.rs`, and a file for each document or namespace with
    /// definitions. A single document yields only one file, named after the document. The document's
    /// namespaces are modules in this file.
    Directory {
        /// True if the standard library is available.
        std: bool,
    },
    /// A crate without the standard library: `Cargo.toml` and `src/lib.rs`. If there are several documents or
    /// any namespaces, each document or namespace with definitions is a module in a separate file.
    Crate(Package),
}

/// A crate to emit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Package {
    /// The crate's name.
    pub name: String,
    /// A one-line description.
    pub title: String,
    /// The relation of the crate's manifest to a workspace.
    pub manifest: Manifest,
}

/// The relation of a crate's manifest to a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// The manifest inherits nothing from a workspace.
    Alone {
        /// The directory of the runtime's crate; `None` for the version in the registry.
        runtime: Option<String>,
    },
    /// The crate is a workspace member. From the workspace, the manifest inherits package fields such as the
    /// version and the license, and also the dependencies and lints.
    Member,
}

impl Package {
    /// Creates a package with a crate name, a one-line description and a manifest.
    #[must_use]
    pub fn new(name: impl Into<String>, title: impl Into<String>, manifest: Manifest) -> Self {
        Package { name: name.into(), title: title.into(), manifest }
    }

    /// Returns true for a workspace member.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.manifest == Manifest::Member
    }
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The files to emit.
    pub output: Output,
    /// The path of the runtime in emitted code; `crate` within the runtime itself.
    pub runtime: String,
    /// The naming style.
    pub names: Names,
    /// The storage of variable-length data.
    pub data: Data,
    /// The paths of existing Rust types, by the names that documents use.
    pub externs: BTreeMap<String, String>,
    /// Additional derives on all types: `serde`, `arbitrary`, or the path of a derive. The first two need the
    /// runtime's feature of the same name and, in an emitted crate, also that crate's feature.
    pub derives: Vec<String>,
    /// Names that are defined for `#ifdef`, in the form of `-D`: `NAME` or `NAME=VALUE`. If no document
    /// defines a name, its value may be used as a constant or as a type.
    pub defined: BTreeSet<String>,
    /// The language of the documents.
    pub dialect: Dialect,
    /// True to supply predefined names that documents use but do not define: aliases of scalar types, such as
    /// `int32_t`, and names from the RFCs on RPC and from C's RPC headers.
    pub prelude: bool,
    /// True to emit valid definitions even if other definitions have errors. Definitions that depend on an
    /// invalid definition are omitted.
    pub keep_going: bool,
    /// The command that regenerates the files. The headers of the files show this command.
    pub command: String,
    /// The directory in which the command runs; `None` for the current directory. Headers show documents'
    /// paths relative to this directory.
    pub command_directory: Option<PathBuf>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Options {
    /// Returns the default options for one file `NAME.rs` in a crate with the standard library.
    #[must_use]
    pub fn module(name: impl Into<String>) -> Self {
        Options::new(Output::Module { name: name.into(), std: true })
    }

    /// Returns the default options for one file `NAME.rs` in a crate without the standard library.
    #[must_use]
    pub fn no_std_module(name: impl Into<String>) -> Self {
        Options::new(Output::Module { name: name.into(), std: false })
    }

    /// Returns the default options for a directory of modules. `std` is true if the crate uses the standard
    /// library.
    #[must_use]
    pub fn directory(std: bool) -> Self {
        Options::new(Output::Directory { std })
    }

    /// Returns the default options for a crate whose manifest inherits nothing from a workspace.
    #[must_use]
    pub fn package(name: impl Into<String>, title: impl Into<String>) -> Self {
        let manifest = Manifest::Alone { runtime: None };
        Options::new(Output::Crate(Package::new(name, title, manifest)))
    }

    /// Returns the default options for a crate that is a member of a workspace.
    #[must_use]
    pub fn member(name: impl Into<String>, title: impl Into<String>) -> Self {
        let manifest = Manifest::Member;
        Options::new(Output::Crate(Package::new(name, title, manifest)))
    }

    fn new(output: Output) -> Self {
        Options {
            output,
            runtime: "::rpcrdma_runtime".to_owned(),
            names: Names::default(),
            data: Data::default(),
            externs: BTreeMap::new(),
            derives: Vec::new(),
            defined: BTreeSet::new(),
            dialect: Dialect::default(),
            prelude: true,
            keep_going: false,
            command: "rpcrdma-xdrgen generate".to_owned(),
            command_directory: None,
            non_exhaustive: (),
        }
    }
}
