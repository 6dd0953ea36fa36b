//! Measures the time and memory of the compiler. Command:
//! `cargo bench -p rpcrdma-xdrgen --bench speed [RUNS]`.
//!
//! The first part measures complete processes: `rpcrdma-xdrgen` on the text of RFC 5662, and rpcgen, if
//! installed, on the same XDR. Without the RFC, the document is `specs/nfs3.txt`. The programs take turns, so
//! that a busy machine slows all of them. The second part measures `rpcrdma-xdrgen` on documents of many
//! shapes in two sizes.

#![allow(clippy::print_stdout, reason = "the output is the measurements")]

#[path = "support/shapes.rs"]
mod shapes;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rpcrdma_xdrgen::extract;
use rpcrdma_xdrgen::source::{Source, Sources};
use shapes::{SHAPES, Shape};

const XDRGEN: &str = env!("CARGO_BIN_EXE_rpcrdma-xdrgen");
/// Default number of runs of each command in the first part.
const RUNS: usize = 101;
/// Number of parts of the shorter documents.
const PARTS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    // Without `--bench` this is an unoptimized test run, which only shows that the benchmark works.
    let measures = std::env::args().any(|argument| argument == "--bench");
    let runs = std::env::args().find_map(|argument| argument.parse().ok());
    processes(runs.unwrap_or(if measures { RUNS } else { 1 }).max(1))?;
    shapes_at_two_sizes(if measures { [31, 11] } else { [1, 1] })
}

struct Contender {
    name: &'static str,
    program: &'static str,
    arguments: Vec<PathBuf>,
    times: Vec<Duration>,
}

impl Contender {
    fn new(name: &'static str, program: &'static str, arguments: &[&Path]) -> Self {
        let arguments = arguments.iter().map(|argument| argument.to_path_buf()).collect();
        Contender { name, program, arguments, times: Vec::new() }
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).current_dir(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn run(&mut self, directory: &Path) -> Result<(), Box<dyn Error>> {
        let mut command = self.command(directory);
        let begin = Instant::now();
        let status = command.status()?;
        self.times.push(begin.elapsed());
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.name).into()) }
    }

    fn median(&mut self) -> Duration {
        median(&mut self.times)
    }

    /// Returns the peak memory of a run, in KiB, if GNU time is installed.
    fn peak(&self, directory: &Path) -> Option<u64> {
        let mut command = Command::new("/usr/bin/time");
        command.args(["-f", "%M", self.program]).args(&self.arguments).current_dir(directory);
        let output = command.stdin(Stdio::null()).output().ok()?;
        String::from_utf8_lossy(&output.stderr).lines().last()?.trim().parse().ok()
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn processes(runs: usize) -> Result<(), Box<dyn Error>> {
    let (name, documents) = documents();
    let scratch = tempfile::tempdir()?;
    let (xdr, out) = (scratch.path().join("a.x"), scratch.path().join("out.rs"));
    std::fs::write(&xdr, extracted(&documents)?)?;
    let mut arguments: Vec<&Path> = vec![Path::new("generate")];
    arguments.extend(documents.iter().map(PathBuf::as_path));
    let check: Vec<&Path> =
        [Path::new("check")].into_iter().chain(arguments.iter().skip(1).copied()).collect();
    arguments.extend([Path::new("-o"), &out]);
    let mut all = vec![
        Contender::new("rpcrdma-xdrgen generate: Rust", XDRGEN, &arguments),
        Contender::new("rpcrdma-xdrgen check", XDRGEN, &check),
    ];
    if has_rpcgen() {
        let x = Path::new("a.x");
        all.push(Contender::new("rpcgen: header, codecs, client and server in C", "rpcgen", &[x]));
        all.push(Contender::new("rpcgen -c: codecs alone", "rpcgen", &[Path::new("-c"), x]));
    } else {
        println!("rpcgen is not installed: no comparison");
    }
    for _ in 0..runs {
        for contender in &mut all {
            contender.run(&directory(scratch.path(), &xdr)?)?;
        }
    }
    println!("{name}: medians of {runs} runs; the processes take turns");
    let first = all.first_mut().map(Contender::median).unwrap_or_default();
    for contender in &mut all {
        let median = contender.median();
        let memory = contender.peak(&directory(scratch.path(), &xdr)?);
        let memory =
            memory.map_or("no GNU time".to_owned(), |kib| format!("{:.1} MB", kib as f64 * 0.001024));
        let ratio = median.as_secs_f64() / first.as_secs_f64();
        println!("  {:8.2} ms  {ratio:6.2}x  peak {memory:>8}  {}", ms(median), contender.name);
    }
    Ok(())
}

/// Returns the name and the path of the document: RFC 5662 if available, else `specs/nfs3.txt`.
fn documents() -> (&'static str, Vec<PathBuf>) {
    let corpus =
        std::env::var_os("XDRGEN_CORPUS").map(|corpus| PathBuf::from(corpus).join("rfc/rfc5662.txt"));
    match corpus.filter(|path| path.exists()) {
        Some(path) => ("RFC 5662", vec![path]),
        None => {
            println!("XDRGEN_CORPUS is not set or has no rfc/rfc5662.txt: using specs/nfs3.txt");
            let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
            ("specs/nfs3.txt", vec![specs.join("nfs3.txt")])
        }
    }
}

/// Returns the extracted XDR of documents as one text, for rpcgen.
fn extracted(documents: &[PathBuf]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let mut sources = Sources::default();
    for path in documents {
        sources.add(Source::new(path, String::from_utf8_lossy(&std::fs::read(path)?)));
    }
    for (id, source) in sources.iter() {
        text.push_str(&extract(id, source).text);
    }
    Ok(text)
}

/// Returns a new directory that contains only the document, as `a.x`. rpcgen does not overwrite files, so
/// each run needs a new directory.
fn directory(scratch: &Path, xdr: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let path = scratch.join("run");
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir(&path)?;
    std::fs::copy(xdr, path.join("a.x"))?;
    Ok(path)
}

fn has_rpcgen() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join("rpcgen").exists())
}

fn shapes_at_two_sizes([short_runs, long_runs]: [usize; 2]) -> Result<(), Box<dyn Error>> {
    println!("documents with {PARTS} parts, and with ten times as many: medians of the processes' run times");
    let scratch = tempfile::tempdir()?;
    for shape in SHAPES {
        let (short, long) = ((shape.text)(PARTS), (shape.text)(PARTS * 10));
        let grown = long.len() as f64 / short.len() as f64;
        let (few, many) = (
            time_of(shape, &short, scratch.path(), short_runs)?,
            time_of(shape, &long, scratch.path(), long_runs)?,
        );
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        println!(
            "  {:8.2} ms  {:8.2} ms  {ratio:6.2}x for {grown:5.2}x the text  {}",
            ms(few),
            ms(many),
            shape.name
        );
    }
    Ok(())
}

/// Returns the median time of `rpcrdma-xdrgen generate` for a document.
fn time_of(shape: &Shape, text: &str, scratch: &Path, runs: usize) -> Result<Duration, Box<dyn Error>> {
    let file = scratch.join(shape.file);
    std::fs::write(&file, text)?;
    let arguments = [Path::new("generate"), &file, Path::new("-o"), &scratch.join("out.rs")];
    let mut contender = Contender::new(shape.name, XDRGEN, &arguments);
    for _ in 0..runs {
        // For an invalid document, the command fails, and reporting its findings takes most of the time.
        let ran = contender.run(scratch);
        if shape.is_valid {
            ran?;
        }
    }
    Ok(contender.median())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
