//! For build scripts. They read and write files, as the command line does.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::diag::{self, Count, Diagnostic, Severity};
use crate::generate::{Generated, Options, Output, Summary, generate};
use crate::include;
use crate::ir::Data;
use crate::names::Names;
use crate::parse::Dialect;
use crate::source::{Source, Sources};

/// Compiles documents in a build script: `OUT_DIR/NAME.rs` is written, for `include!`.
///
/// ```no_run
/// fn main() -> Result<(), rpcrdma_xdrgen::BuildError> {
///     rpcrdma_xdrgen::Build::new().document("specs/foo.txt").binding("specs/foo.ddp.toml").compile()?;
///     Ok(())
/// }
/// ```
///
/// and in the crate, which depends on `rpcrdma-runtime`:
///
/// ```text
/// #[rustfmt::skip]
/// mod foo {
///     include!(concat!(env!("OUT_DIR"), "/foo.rs"));
/// }
/// ```
///
/// Several documents are compiled together into that one file, each a module in it: `foo::foo`, `foo::bar`.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `compile` is called"]
pub struct Build {
    documents: Vec<PathBuf>,
    bindings: Vec<PathBuf>,
    name: Option<String>,
    out_dir: Option<PathBuf>,
    options: Options,
}

impl Default for Build {
    fn default() -> Self {
        Build::new()
    }
}

/// The reason why documents could not be compiled. Both text forms list the findings with their positions.
pub enum BuildError {
    /// The documents or bindings have errors.
    Findings {
        /// The errors in source order. Warnings are reported to cargo instead.
        errors: Vec<Diagnostic>,
        /// The documents and bindings.
        sources: Sources,
    },
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// There is no document, no file name, or no output directory.
    Missing(&'static str),
}

/// The most errors that the text of a [`BuildError`] shows.
const SHOWN: usize = 100;

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Findings { errors, sources } => {
                let shown = errors.get(..SHOWN).unwrap_or(errors);
                write!(f, "rpcrdma-xdrgen found {}", Count::of(errors))?;
                if errors.len() > SHOWN {
                    write!(f, "; {} more are not shown", errors.len() - SHOWN)?;
                }
                write!(f, "\n\n{}", diag::plain(shown, sources))
            }
            BuildError::File(path, error) => write!(f, "{}: {error}", path.display()),
            BuildError::Missing(what) => f.write_str(what),
        }
    }
}

// A build script that returns an error has this form of it printed.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::File(_, error) => Some(error),
            BuildError::Findings { .. } | BuildError::Missing(_) => None,
        }
    }
}

impl Build {
    /// Nothing to compile yet.
    pub fn new() -> Self {
        Build {
            documents: Vec::new(),
            bindings: Vec::new(),
            name: None,
            out_dir: None,
            options: Options { command: "cargo build".to_owned(), ..Options::module("") },
        }
    }

    /// Adds a document: RFC text or a `.x` file. All documents are compiled together into one file, named
    /// after the first; of several, each is a module in it, named after its file. So is each file that a
    /// document includes (`#include "sibling.x"`, relative to the document), and cargo runs the script again
    /// when one of them changes.
    pub fn document(mut self, path: impl Into<PathBuf>) -> Self {
        self.documents.push(path.into());
        self
    }

    /// Adds a binding file, `NAME.ddp.toml`.
    pub fn binding(mut self, path: impl Into<PathBuf>) -> Self {
        self.bindings.push(path.into());
        self
    }

    /// Names the file, without `.rs`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Names a type that exists in Rust: a document's `name` is the type at `path`.
    pub fn extern_type(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        self.options.externs.insert(name.into(), path.into());
        self
    }

    /// Emits types that borrow the message they are decoded from: `Write3Args<'a>` contains an
    /// `OpaqueRef<'a>`. Decoding them does not allocate. Borrowed data cannot be placed directly, so
    /// bindings with eligible items are omitted.
    pub fn borrowed(mut self) -> Self {
        self.options.data = Data::Borrowed;
        self
    }

    /// The naming style, if not that of Rust.
    pub fn names(mut self, names: Names) -> Self {
        self.options.names = names;
        self
    }

    /// Adds derives to all types: `serde`, `arbitrary`, or the path of any derive. `serde` requires the
    /// crate `serde` with its feature `derive`, and `rpcrdma-runtime` with its feature `serde`. The same
    /// holds for `arbitrary`.
    pub fn derive(mut self, derive: impl Into<String>) -> Self {
        self.options.derives.push(derive.into());
        self
    }

    /// The language of the documents, if not that of the RFCs.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.options.dialect = dialect;
        self
    }

    /// Does without the names that documents leave to others: the usual typedefs of integers, and RPC's own
    /// names.
    pub fn no_prelude(mut self) -> Self {
        self.options.prelude = false;
        self
    }

    /// Defines a name for `#ifdef`, or, as `NAME=VALUE`, also as a constant that documents use and do not
    /// define.
    pub fn define(mut self, name: impl Into<String>) -> Self {
        self.options.defined.insert(name.into());
        self
    }

    /// The path of the runtime in emitted code, if it is not `::rpcrdma_runtime`.
    pub fn runtime(mut self, path: impl Into<String>) -> Self {
        self.options.runtime = path.into();
        self
    }

    /// Emits code for `no_std`; the crate must declare `extern crate alloc;`.
    pub fn no_std(mut self) -> Self {
        self.options.output = Output::Module { name: String::new(), std: false };
        self
    }

    /// The directory for the file, if it is not `OUT_DIR`.
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(path.into());
        self
    }

    /// Compiles, writes the file, and prints cargo's directives. Warnings become cargo warnings.
    ///
    /// # Errors
    /// Returns the findings with their positions, or a file that cannot be read or written.
    pub fn compile(self) -> Result<Summary, BuildError> {
        let Some(out_dir) = self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from))
        else {
            return Err(BuildError::Missing("OUT_DIR is not set: call `out_dir` outside of a build script"));
        };
        let sources = self.read()?;
        let generated = generate(&sources, &self.named()?);
        tell_cargo(&generated, &sources);
        if generated.has_errors() {
            let mut errors = generated.diagnostics;
            errors.retain(Diagnostic::is_error);
            return Err(BuildError::Findings { errors, sources });
        }
        for (path, text) in &generated.files {
            let path = out_dir.join(path);
            std::fs::write(&path, text).map_err(|error| BuildError::File(path, error))?;
        }
        Ok(generated.summary)
    }

    fn read(&self) -> Result<Sources, BuildError> {
        let mut sources = Sources::default();
        let documents = self.documents.iter().map(|path| (path, false));
        for (path, is_binding) in documents.chain(self.bindings.iter().map(|path| (path, true))) {
            let bytes = std::fs::read(path).map_err(|error| BuildError::File(path.clone(), error))?;
            // Old documents are not all UTF-8: an invalid byte becomes a replacement character.
            let text = String::from_utf8_lossy(&bytes);
            sources.add(if is_binding { Source::binding(path, text) } else { Source::new(path, text) });
        }
        include::load(&mut sources, &self.options.defined);
        Ok(sources)
    }

    fn named(&self) -> Result<Options, BuildError> {
        let first = self.documents.first().ok_or(BuildError::Missing("no document to compile"))?;
        let stem = || first.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(stem).ok_or(BuildError::Missing("the file has no name"))?;
        let std = !matches!(self.options.output, Output::Module { std: false, .. });
        Ok(Options { output: Output::Module { name, std }, ..self.options.clone() })
    }
}

/// Prints cargo's directives: when to rerun the script, and the warnings.
#[allow(clippy::print_stdout, reason = "it is how a build script talks to cargo")]
fn tell_cargo(generated: &Generated, sources: &Sources) {
    for (_, source) in sources.iter() {
        println!("cargo::rerun-if-changed={}", source.name().display());
    }
    for found in generated.diagnostics.iter().filter(|found| found.severity == Severity::Warning) {
        let place = sources.get(found.span.source).map(|source| {
            let at = source.line_column(found.span.start);
            format!("{}:{}:{}: ", shown(source.name()), at.line, at.column)
        });
        let text = found.text();
        let help = text.help.map_or_else(String::new, |help| format!("; {help}"));
        println!("cargo::warning={}{} [{}]{help}", place.unwrap_or_default(), text.message, found.code());
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
