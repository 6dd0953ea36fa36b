//! The command line.

mod compat;
mod diff;
mod report;
mod rerun;
mod sizes;
mod versions;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::diag::{self, json_line};
use crate::generate::{Manifest, Options, Output, Package, check, generate};
use crate::include;
use crate::ir::Data;
use crate::names::Names;
use crate::parse::Dialect;
use crate::relative;
use crate::source::{STDIN, Source, Sources};
use report::Reporting;

const AFTER: &str = "\
Examples:
  rpcrdma-xdrgen check rfc7863.txt rfc8276.txt       documents that use one another's names
  rpcrdma-xdrgen generate kv.txt --binding kv.ddp.toml --output src/kv.rs
  rpcrdma-xdrgen extract rfc5662.txt > nfs41.x       the XDR of an RFC
  rpcrdma-xdrgen compat --extends base.txt more.txt  whether a protocol is a compatible extension
  rpcrdma-xdrgen diff rfc5666.txt rfc8166.txt        the changes between two versions
  rpcrdma-xdrgen sizes nfs3.txt --binding nfs3.ddp.toml --inline 4096
  rpcrdma-xdrgen explain X212                        the meaning of a finding

Exit status: 0 on success, even with warnings; 1 if a document has errors; 2 if the arguments are invalid or
a file cannot be read or written. The help of `compat` and `diff` describes the exit status of these commands.";

/// A compiler for the XDR language and ONC RPC programs: RFC text or .x files in, Rust out.
#[derive(Debug, Parser)]
#[command(name = "rpcrdma-xdrgen", version, after_help = AFTER)]
struct Command {
    #[command(subcommand)]
    task: Task,
    #[command(flatten)]
    reporting: Reporting,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the XDR of documents, without `///`, page breaks and prose.
    #[command(after_help = "Example: rpcrdma-xdrgen extract rfc5662.txt > nfs41.x")]
    Extract(Documents),
    /// Check documents, which may use one another's names.
    #[command(after_help = "\
Examples:
  rpcrdma-xdrgen check kv.x --binding kv.ddp.toml
  rpcrdma-xdrgen check rfc7863.txt rfc8276.txt           a base and its extension
  rpcrdma-xdrgen check --message-format json kv.x        for an editor
  rpcrdma-xdrgen check --deny warnings kv.x              for CI")]
    Check(Inputs),
    /// Compile documents, which may use one another's names, to Rust.
    #[command(after_help = "\
Examples:
  rpcrdma-xdrgen generate kv.txt                         to standard output
  rpcrdma-xdrgen generate kv.txt --binding kv.ddp.toml --output src/kv.rs
  rpcrdma-xdrgen generate kv.txt --extern handle=crate::Handle --output src/kv.rs
  rpcrdma-xdrgen generate kv.txt --crate kv --output kv  a crate")]
    Generate(Generation),
    /// Explain a finding: its meaning, an example, and how to fix it.
    #[command(after_help = "Example: rpcrdma-xdrgen explain X212")]
    Explain {
        /// The code, as in `error[X212]`.
        code: String,
    },
    /// Check whether a protocol is a compatible extension of another. List the additions if it is, and the
    /// incompatible changes if it is not.
    Compat(compat::Arguments),
    /// List the changes from one version of a protocol to another.
    Diff(diff::Arguments),
    /// List the maximum sizes of a program's messages, and the chunks that the messages need over
    /// RPC-over-RDMA.
    Sizes(sizes::Arguments),
}

/// Returns the definition of the command line, for man pages and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    Command::command()
}

/// The documents of a run.
#[derive(Args, Debug)]
struct Documents {
    /// RFC text with `///` lines or with indented definitions, or .x files; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Define a name for `#ifdef`. If documents use the name but do not define it, the name stands for VALUE,
    /// which is 1 by default.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
}

/// The input files, and options for their interpretation.
#[derive(Args, Debug)]
struct Inputs {
    #[command(flatten)]
    documents: Documents,
    /// A binding (a .ddp.toml file): the data that may be placed directly, the maximum sizes of replies, and
    /// other properties of the programs.
    #[arg(short, long, value_name = "FILE")]
    binding: Vec<PathBuf>,
    /// Map a type of the documents to an existing Rust type.
    #[arg(long = "extern", value_name = "NAME=RUST::PATH", value_parser = named_path)]
    externs: Vec<(String, String)>,
    /// Do not supply predefined names such as uint32_t, AUTH_SYS and authsys_parms.
    #[arg(long)]
    no_prelude: bool,
    /// The language of the documents: `rfc`, or `xdrzcc`, which adds `zcopaque` (DDP-eligible data) and
    /// `opaque_union`.
    #[arg(long, value_name = "NAME", default_value = "rfc", value_parser = dialect)]
    dialect: Dialect,
}

/// Output format and destination.
#[derive(Args, Debug)]
struct Generation {
    #[command(flatten)]
    inputs: Inputs,
    /// A file ending in .rs, or a directory; the default is standard output. If there are several
    /// documents, each becomes a module in the file, or a file beside mod.rs in the directory.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The path of the runtime in emitted code.
    #[arg(long, value_name = "RUST::PATH", default_value = "::rpcrdma_runtime")]
    runtime: String,
    /// Naming style: Rust's conventions, or the names of the document.
    #[arg(long, value_name = "STYLE", value_enum, default_value_t)]
    names: Names,
    /// Storage of opaque data, strings and arrays: shared with the message or owned (`bytes`), or borrowed
    /// from the message (`borrowed`).
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    data: Data,
    /// Emit code for a crate without the standard library.
    #[arg(long)]
    no_std: bool,
    /// Write the valid definitions even if others have errors. The exit status still reports the errors.
    #[arg(long)]
    keep_going: bool,
    /// Add a derive to all types: `serde`, `arbitrary`, or the path of a derive. `serde` and `arbitrary`
    /// require the runtime's feature of the same name; an emitted crate derives them only with its own
    /// feature of that name. May be repeated.
    #[arg(long, value_name = "DERIVE")]
    derive: Vec<String>,
    /// Emit a complete no_std crate with this name into the directory given by --output.
    #[arg(long = "crate", value_name = "NAME", requires = "output")]
    package: Option<String>,
    /// One-line description of the crate.
    #[arg(
        long,
        value_name = "TEXT",
        requires = "package",
        default_value = "Types and programs compiled from XDR."
    )]
    title: String,
    /// Make the crate a workspace member, which inherits version, edition, license, lints and dependencies.
    #[arg(long, requires = "package")]
    workspace_crate: bool,
    /// The directory of rpcrdma-runtime, a dependency of the crate. By default, the crate depends on the
    /// version in the registry.
    #[arg(long, value_name = "DIRECTORY", requires = "package", conflicts_with = "workspace_crate")]
    runtime_path: Option<String>,
}

fn named_path(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.split_once('=').ok_or("expected NAME=RUST::PATH")?;
    Ok((name.trim().to_owned(), path.trim().to_owned()))
}

fn dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "rfc" => Ok(Dialect::Rfc),
        "xdrzcc" => Ok(Dialect::Xdrzcc),
        _ => Err("expected `rfc` or `xdrzcc`".to_owned()),
    }
}

#[derive(Debug)]
enum Failure {
    /// At least one printed finding is an error, or `diff` found changes.
    Findings,
    /// The documents could not be compared completely. The reason was printed.
    Incomparable,
    File(PathBuf, std::io::Error),
    Usage(String),
}

/// Runs the program `rpcrdma-xdrgen` with the arguments of this process. The exit status is 0 on success,
/// even if there are warnings. It is 1 if a document has errors, is not an extension of its base, or differs
/// from the old version. It is 2 if the arguments are invalid, a file cannot be read or written, or two
/// versions cannot be compared, for example because one of them has errors.
#[must_use]
pub fn main() -> ExitCode {
    let command = Command::parse();
    let reporting = &command.reporting;
    let done = match &command.task {
        Task::Extract(documents) => run_extract(documents, reporting),
        Task::Check(inputs) => run_check(inputs, reporting),
        Task::Generate(generation) => run_generate(generation, reporting),
        Task::Explain { code } => run_explain(code),
        Task::Compat(arguments) => compat::run(arguments, reporting),
        Task::Diff(arguments) => diff::run(arguments, reporting),
        Task::Sizes(arguments) => sizes::run(arguments, reporting),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Findings) => ExitCode::from(1),
        Err(Failure::Incomparable) => ExitCode::from(2),
        Err(Failure::File(path, error)) => {
            reporting.print_failure(Some(&path), &error.to_string());
            ExitCode::from(2)
        }
        Err(Failure::Usage(what)) => {
            reporting.print_failure(None, &what);
            ExitCode::from(2)
        }
    }
}

fn run_extract(documents: &Documents, reporting: &Reporting) -> Result<(), Failure> {
    let sources = documents.read()?;
    let mut text = String::new();
    let mut found = Vec::new();
    for (id, source) in sources.iter() {
        let extract = crate::parse::extract(id, source);
        text.push_str(&extract.text);
        found.extend(extract.diagnostics);
    }
    print(&text)?;
    reporting.report(&sources, &found)
}

fn run_check(inputs: &Inputs, reporting: &Reporting) -> Result<(), Failure> {
    let sources = inputs.read()?;
    let options = inputs.options(Options::module("checked"));
    let checked = check(&sources, &options);
    reporting.report_with(&sources, &checked.diagnostics, checked.more)
}

fn run_generate(generation: &Generation, reporting: &Reporting) -> Result<(), Failure> {
    let sources = generation.inputs.read()?;
    let generated = generate(&sources, &generation.options());
    let reported = reporting.report_with(&sources, &generated.diagnostics, generated.more);
    if reported.is_err() && !generation.keep_going {
        return reported;
    }
    if let Some(directory) = generation.directory() {
        must_not_replace(directory, generated.files.iter().map(|(path, _)| path))?;
    }
    for (path, text) in &generated.files {
        match &generation.output {
            None => print(text)?,
            Some(file) if generation.package.is_none() && is_rust(file) => write(file, text)?,
            Some(directory) => write(&directory.join(path), text)?,
        }
    }
    reported
}

fn run_explain(code: &str) -> Result<(), Failure> {
    let upper = format!("X{}", code.to_ascii_uppercase().trim_start_matches('X'));
    match diag::page(&upper) {
        Some(page) => print(&(page + "\n")),
        None => {
            let (first, last) = (diag::codes().next().unwrap_or(""), diag::codes().last().unwrap_or(""));
            Err(Failure::Usage(format!(
                "no finding has the code `{code}`; codes range from {first} to {last}"
            )))
        }
    }
}

impl Inputs {
    fn read(&self) -> Result<Sources, Failure> {
        let mut sources = self.documents.read()?;
        for path in &self.binding {
            let text = read(path).map_err(|error| Failure::File(path.clone(), error))?;
            sources.add(Source::binding(path.clone(), text));
        }
        include::load(&mut sources, &self.documents.define.iter().cloned().collect());
        Ok(sources)
    }

    fn options(&self, options: Options) -> Options {
        let externs = self.externs.iter().cloned().collect();
        let defined = self.documents.define.iter().cloned().collect();
        Options { externs, defined, prelude: !self.no_prelude, dialect: self.dialect, ..options }
    }
}

impl Generation {
    fn directory(&self) -> Option<&Path> {
        self.output.as_deref().filter(|_| self.package.is_some())
    }

    /// Returns `--runtime-path`, relative to the crate's directory unless the path is absolute.
    fn manifest_path(&self) -> Option<String> {
        let path = self.runtime_path.as_deref()?;
        Some(relative::for_manifest(path, self.directory()))
    }

    fn options(&self) -> Options {
        let output = match (&self.package, &self.output) {
            (Some(name), _) => Output::Crate(Package {
                name: name.clone(),
                title: self.title.clone(),
                manifest: match self.manifest_path() {
                    _ if self.workspace_crate => Manifest::Member,
                    runtime => Manifest::Alone { runtime },
                },
            }),
            (None, Some(path)) if !is_rust(path) => Output::Directory { std: !self.no_std },
            (None, path) => Output::Module { name: module_name(path.as_deref()), std: !self.no_std },
        };
        self.inputs.options(Options {
            output,
            runtime: self.runtime.clone(),
            derives: self.derive.clone(),
            names: self.names,
            data: self.data,
            keep_going: self.keep_going,
            command: rerun::command(self),
            command_directory: self.directory().map(Path::to_owned),
            ..Options::module("")
        })
    }
}

/// Returns the name of the module: the stem of the output file. The name is not used for standard output.
fn module_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_stem)
        .map_or_else(|| "generated".to_owned(), |stem| stem.to_string_lossy().into())
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Checks that a crate does not replace a handwritten package.
///
/// # Errors
/// Fails if the directory has a manifest that rpcrdma-xdrgen did not emit or that cannot be read. Without a
/// manifest, fails if the crate would replace an existing file.
fn must_not_replace<'a>(directory: &Path, files: impl Iterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let manifest = directory.join("Cargo.toml");
    let replaced = match std::fs::read_to_string(&manifest) {
        Ok(text) => Some(manifest).filter(|_| !text.starts_with("# Generated by rpcrdma-xdrgen")),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::File(manifest, error));
        }
        Err(_) => files.map(|file| directory.join(file)).find(|file| file.exists()),
    };
    let why = "exists and was not generated by rpcrdma-xdrgen: choose another directory for --output";
    replaced.map_or(Ok(()), |file| Err(Failure::Usage(format!("{}: {why}", file.display()))))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let fail = |error| Failure::File(path.to_owned(), error);
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).map_err(fail)?;
    }
    std::fs::write(path, text).map_err(fail)
}

impl Documents {
    fn read(&self) -> Result<Sources, Failure> {
        let mut sources = Sources::default();
        for path in &self.files {
            sources.add(read_document(path)?);
        }
        Ok(sources)
    }
}

fn read_document(path: &Path) -> Result<Source, Failure> {
    let text = read(path).map_err(|error| Failure::File(path.to_owned(), error))?;
    let name = if path == Path::new("-") { Path::new(STDIN) } else { path };
    Ok(Source::new(name, text))
}

/// Reads a document or a binding file. Replaces bytes that are not valid UTF-8, since some old documents have
/// another encoding.
fn read(path: &Path) -> std::io::Result<String> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)?;
        bytes
    } else {
        std::fs::read(path)?
    };
    if u32::try_from(bytes.len()).is_err() {
        return Err(std::io::Error::other("the document is too long: limit 4 GiB"));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn print(text: &str) -> Result<(), Failure> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    match written {
        // A reader such as `head` may close the pipe early.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::File(PathBuf::from("standard output"), error)),
        Ok(()) => Ok(()),
    }
}
