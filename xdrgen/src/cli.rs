//! The command line: one of the two places that read and write files.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::diag::{self, Diagnostic};
use crate::extract::extract;
use crate::parse::{Options, parse_with};
use crate::source::{Source, Sources};

/// A compiler for the XDR language and ONC RPC programs: RFC text or .x files in, Rust out.
#[derive(Debug, Parser)]
#[command(name = "xdrgen", version)]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the XDR of documents: marks, page breaks and prose taken out.
    Extract(Documents),
    /// Say what is wrong with documents, which may use one another's names.
    Check(Documents),
}

/// The documents of a run.
#[derive(Args, Debug)]
struct Documents {
    /// RFC text with `///` lines or with indented definitions, or .x files; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Define a name for `#ifdef`.
    #[arg(short = 'D', value_name = "NAME")]
    define: Vec<String>,
}

/// Why a run came to no result.
#[derive(Debug)]
enum Failure {
    /// Findings were printed, and one is an error.
    Findings,
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
}

/// Runs the program `xdrgen` with the arguments of this process. The exit status is 0 if all went well, 1 if a
/// document has errors or a file cannot be read or written, 2 if the arguments are wrong.
#[must_use]
pub fn main() -> ExitCode {
    let command = Command::parse();
    let done = match &command.task {
        Task::Extract(documents) => run_extract(documents),
        Task::Check(documents) => run_check(documents),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Findings) => ExitCode::from(1),
        Err(Failure::File(path, error)) => {
            complain(&format!("xdrgen: {}: {error}\n", path.display()));
            ExitCode::from(1)
        }
    }
}

fn run_extract(documents: &Documents) -> Result<(), Failure> {
    let sources = documents.read()?;
    let mut text = String::new();
    let mut found = Vec::new();
    for (id, source) in sources.iter() {
        let extract = extract(id, source);
        text.push_str(&extract.text);
        found.extend(extract.diagnostics);
    }
    print(&text)?;
    report(&sources, &found)
}

fn run_check(documents: &Documents) -> Result<(), Failure> {
    let sources = documents.read()?;
    let parsed = parse_with(&sources, &documents.options());
    report(&sources, &parsed.diagnostics)
}

impl Documents {
    fn read(&self) -> Result<Sources, Failure> {
        let mut sources = Sources::default();
        for path in &self.files {
            let text = read(path).map_err(|error| Failure::File(path.clone(), error))?;
            sources.add(Source::new(path.clone(), text));
        }
        Ok(sources)
    }

    fn options(&self) -> Options {
        Options { defined: self.define.iter().cloned().collect() }
    }
}

/// Reads a document. Old documents are not all UTF-8: a byte that is none becomes a replacement character.
fn read(path: &Path) -> std::io::Result<String> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)?;
        bytes
    } else {
        std::fs::read(path)?
    };
    if u32::try_from(bytes.len()).is_err() {
        return Err(std::io::Error::other("a document is at most 4 GiB long"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How many findings of a run are shown; nobody reads more.
const SHOWN: usize = 200;

/// Prints findings to standard error, and fails if one is an error.
fn report(sources: &Sources, found: &[Diagnostic]) -> Result<(), Failure> {
    let shown = found.get(..SHOWN).unwrap_or(found);
    complain(&diag::render(shown, sources, std::io::stderr().is_terminal()));
    if found.len() > shown.len() {
        complain(&format!("xdrgen: {} more are not shown\n", found.len() - shown.len()));
    }
    if diag::has_errors(found) { Err(Failure::Findings) } else { Ok(()) }
}

fn print(text: &str) -> Result<(), Failure> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    match written {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::File(PathBuf::from("standard output"), error)),
        Ok(()) => Ok(()),
    }
}

/// To standard error. When that is closed there is nobody to tell.
fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
