//! Compiles documents from a build script.

use std::fmt;
use std::path::PathBuf;

use crate::diag::{self, Count, Diagnostic, Severity};
use crate::generate::{Generated, Options, Output, Summary, generate};
use crate::include;
use crate::ir::Data;
use crate::names::Names;
use crate::parse::Dialect;
use crate::source::{Refused, Source, Sources};

/// Compiles documents in a build script: writes `OUT_DIR/NAME.rs`, for `include!`.
///
/// ```no_run
/// fn main() -> Result<(), rpcrdma_xdrgen::BuildError> {
///     rpcrdma_xdrgen::Build::new().document("specs/foo.txt").binding("specs/foo.ddp.toml").compile()?;
///     Ok(())
/// }
/// ```
///
/// Include the file in a crate that depends on `rpcrdma-runtime`:
///
/// ```text
/// #[rustfmt::skip]
/// mod foo {
///     include!(concat!(env!("OUT_DIR"), "/foo.rs"));
/// }
/// ```
///
/// Several documents are compiled together into one file with a module for each: `foo::foo`, `foo::bar`.
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

/// The reason why documents could not be compiled. `Display` and `Debug` list up to 100 errors with their
/// positions.
pub enum BuildError {
    /// The documents, the bindings or the settings have errors.
    Findings {
        /// The errors in source order. Warnings are reported to cargo instead.
        errors: Vec<Diagnostic>,
        /// The documents and bindings.
        sources: Sources,
    },
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// The document, the file name or the output directory is missing.
    Missing(&'static str),
}

/// Maximum number of errors shown in the text of a [`BuildError`].
const SHOWN: usize = 100;

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Findings { errors, sources } => {
                let shown = errors.get(..SHOWN).unwrap_or(errors);
                write!(f, "rpcrdma-xdrgen found {}", Count::of(errors))?;
                if errors.len() > SHOWN {
                    write!(f, "; {} of them not shown", errors.len() - SHOWN)?;
                }
                write!(f, "\n\n{}", diag::plain(shown, sources))
            }
            BuildError::File(path, error) => write!(f, "{}: {error}", path.display()),
            BuildError::Missing(what) => f.write_str(what),
        }
    }
}

// Rust prints the `Debug` form of an error that `main` returns.
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
    /// Returns a builder without documents.
    pub fn new() -> Self {
        Build {
            documents: Vec::new(),
            bindings: Vec::new(),
            name: None,
            out_dir: None,
            options: Options { command: "cargo build".to_owned(), ..Options::module("") },
        }
    }

    /// Adds a document: RFC text or a `.x` file. The files that a document includes (`#include "sibling.x"`,
    /// relative to the document) are also compiled. All documents are compiled together into one file,
    /// which is named after the first document by default. If there are several documents, each becomes a
    /// module named after its file. Cargo reruns the script if one of the files changes, and on each build
    /// while an included file is missing.
    pub fn document(mut self, path: impl Into<PathBuf>) -> Self {
        self.documents.push(path.into());
        self
    }

    /// Adds a binding file, `NAME.ddp.toml`.
    pub fn binding(mut self, path: impl Into<PathBuf>) -> Self {
        self.bindings.push(path.into());
        self
    }

    /// Sets the name of the output file, without `.rs`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Maps the type `name` of a document to the existing Rust type at `path`.
    pub fn extern_type(mut self, name: impl Into<String>, path: impl Into<String>) -> Self {
        self.options.externs.insert(name.into(), path.into());
        self
    }

    /// Emits types that borrow from the message: `Write3Args<'a>` contains an `OpaqueRef<'a>`. Decoding these
    /// types does not allocate. Borrowed data cannot be placed directly, so bindings with eligible items are
    /// omitted.
    pub fn borrowed(mut self) -> Self {
        self.options.data = Data::Borrowed;
        self
    }

    /// Sets the naming style. The default is Rust's conventions.
    pub fn names(mut self, names: Names) -> Self {
        self.options.names = names;
        self
    }

    /// Adds a derive to all types: `serde`, `arbitrary`, or the path of any derive. `serde` requires the
    /// crate `serde` with its feature `derive`, and `rpcrdma-runtime` with its feature `serde`.
    /// `arbitrary` requires the crate `arbitrary` with its feature `derive`, and `rpcrdma-runtime` with its
    /// feature `arbitrary`.
    pub fn derive(mut self, derive: impl Into<String>) -> Self {
        self.options.derives.push(derive.into());
        self
    }

    /// Sets the language of the documents. The default is the language of the RFCs.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.options.dialect = dialect;
        self
    }

    /// Disables the predefined names: the usual integer typedefs, and names from the RFCs on RPC.
    pub fn no_prelude(mut self) -> Self {
        self.options.prelude = false;
        self
    }

    /// Defines a name for `#ifdef`: `NAME` or `NAME=VALUE`. If documents use `NAME` but do not define it, the
    /// name stands for the value, which is 1 by default.
    pub fn define(mut self, name: impl Into<String>) -> Self {
        self.options.defined.insert(name.into());
        self
    }

    /// Sets the path of the runtime in emitted code. The default is `::rpcrdma_runtime`.
    pub fn runtime(mut self, path: impl Into<String>) -> Self {
        self.options.runtime = path.into();
        self
    }

    /// Emits code for `no_std`; the crate must declare `extern crate alloc;`.
    pub fn no_std(mut self) -> Self {
        self.options.output = Output::Module { name: String::new(), std: false };
        self
    }

    /// Sets the output directory. The default is `OUT_DIR`.
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(path.into());
        self
    }

    /// Compiles the documents, writes the file, and prints cargo's directives. Warnings become cargo
    /// warnings.
    ///
    /// # Errors
    /// Fails if a document or a binding has errors, if a file cannot be read or written, or if a setting is
    /// invalid or missing.
    pub fn compile(self) -> Result<Summary, BuildError> {
        let Some(out_dir) = self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from))
        else {
            return Err(BuildError::Missing("OUT_DIR is not set: outside a build script, call `out_dir`"));
        };
        let sources = self.read()?;
        let generated = generate(&sources, &self.named_options()?);
        print_directives(&generated, &sources);
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
            // Some old documents are not valid UTF-8, so invalid bytes become replacement characters.
            let text = String::from_utf8_lossy(&bytes);
            sources.add(if is_binding { Source::binding(path, text) } else { Source::new(path, text) });
        }
        include::load(&mut sources, &self.options.defined);
        Ok(sources)
    }

    fn named_options(&self) -> Result<Options, BuildError> {
        let first = self.documents.first().ok_or(BuildError::Missing("no document to compile"))?;
        let stem = || first.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = self
            .name
            .clone()
            .or_else(stem)
            .ok_or(BuildError::Missing("the first document has no file name: call `name`"))?;
        let std = !matches!(self.options.output, Output::Module { std: false, .. });
        Ok(Options { output: Output::Module { name, std }, ..self.options.clone() })
    }
}

#[allow(clippy::print_stdout, reason = "cargo reads the standard output of a build script")]
fn print_directives(generated: &Generated, sources: &Sources) {
    let missing = sources.includes().iter().filter_map(|include| match &include.file {
        Err(Refused::Missing(path)) => Some(path.as_path()),
        _ => None,
    });
    let paths = sources.iter().map(|(_, source)| source.name()).chain(missing);
    // Skips paths with a line break: cargo would read the text after the line break as another directive.
    for path in paths.map(|path| path.display().to_string()).filter(|path| !path.contains('\n')) {
        println!("cargo::rerun-if-changed={path}");
    }
    for found in generated.diagnostics.iter().filter(|found| found.severity == Severity::Warning) {
        let source = sources.get(found.span.source);
        let place = source.map_or_else(String::new, |source| diag::place(source, found.span) + ": ");
        let text = found.text();
        let help = text.help.map_or_else(String::new, |help| format!("; {help}"));
        println!("cargo::warning={place}{} [{}]{help}", text.message, found.code());
    }
}
