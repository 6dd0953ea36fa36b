//! The options of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::ir::Data;
use crate::names::Names;
use crate::parse::Dialect;

/// The files that are emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// One file, `NAME.rs`: a module, or a file to include. It uses the standard library's `Vec` and `Box`,
    /// or those of `alloc`.
    Module {
        /// The file's name without `.rs`.
        name: String,
        /// Whether the standard library is available.
        std: bool,
    },
    /// Files for a directory of modules: `mod.rs` and one for each document. A single document is one file
    /// with the document's name.
    Directory {
        /// Whether the standard library is available.
        std: bool,
    },
    /// A crate: `Cargo.toml`, `src/lib.rs` and, of several documents, a file for each. It does without the
    /// standard library.
    Crate(Package),
}

/// A crate that is emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// A description in one line.
    pub title: String,
    /// The dependencies of its manifest.
    pub manifest: Manifest,
}

/// The dependencies of a crate's manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// It is self-contained.
    Alone {
        /// The directory of the runtime's crate, if it is not the registry's.
        runtime: Option<String>,
    },
    /// It is a workspace member and inherits version, edition, licence, lints and dependencies.
    Member,
}

impl Package {
    /// Returns true if it is a member of a workspace.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.manifest == Manifest::Member
    }
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The files that are emitted.
    pub output: Output,
    /// The path of the runtime in emitted code; `crate` within the runtime itself.
    pub runtime: String,
    /// The naming style.
    pub names: Names,
    /// The storage of variable-length data.
    pub data: Data,
    /// Types that exist in Rust: the document's name, and the path.
    pub externs: BTreeMap<String, String>,
    /// Further derives of all types: `serde`, `arbitrary`, or the path of a derive. In a crate the first two
    /// depend on features of that name. The runtime needs its features of that name.
    pub derives: Vec<String>,
    /// Names that `#ifdef` finds defined, as `-D` takes them: `NAME` or `NAME=VALUE`. The value of one that
    /// no document defines may be used as a constant.
    pub defined: BTreeSet<String>,
    /// The documents' language.
    pub dialect: Dialect,
    /// Whether names that documents do not define are supplied: the usual typedefs of integers, and RPC's
    /// own names.
    pub prelude: bool,
    /// Whether valid definitions are emitted even if others have errors, except for those that need them.
    pub keep_going: bool,
    /// The command that regenerates the files, for their heads.
    pub command: String,
    /// The directory in which the command runs, if it is not the current one: heads name documents as seen
    /// from it.
    pub command_directory: Option<PathBuf>,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Options {
    /// One file `NAME.rs` for a crate with the standard library, as in a build script.
    #[must_use]
    pub fn module(name: impl Into<String>) -> Self {
        Options::new(Output::Module { name: name.into(), std: true })
    }

    /// One file `NAME.rs` for a crate without the standard library.
    #[must_use]
    pub fn no_std_module(name: impl Into<String>) -> Self {
        Options::new(Output::Module { name: name.into(), std: false })
    }

    /// Files for a directory of modules, for a crate with the standard library or without it.
    #[must_use]
    pub fn directory(std: bool) -> Self {
        Options::new(Output::Directory { std })
    }

    /// A crate that builds on its own.
    #[must_use]
    pub fn package(name: impl Into<String>, title: impl Into<String>) -> Self {
        let manifest = Manifest::Alone { runtime: None };
        Options::new(Output::Crate(Package { name: name.into(), title: title.into(), manifest }))
    }

    /// A crate that is a member of a workspace.
    #[must_use]
    pub fn member(name: impl Into<String>, title: impl Into<String>) -> Self {
        let manifest = Manifest::Member;
        Options::new(Output::Crate(Package { name: name.into(), title: title.into(), manifest }))
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
