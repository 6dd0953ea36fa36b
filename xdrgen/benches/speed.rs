//! Time and memory of the compiler: `cargo bench -p rpcrdma-xdrgen --bench speed [RUNS]`.
//!
//! First, whole processes: `rpcrdma-xdrgen generate` on the text of RFC 5662, and rpcgen, if it is there, on
//! the same XDR. They take turns, so that a busy machine slows both. Then documents of many shapes, and ten
//! times as long, by whole processes as well.

#![allow(clippy::print_stdout, reason = "what it measures is its output")]

mod shapes;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rpcrdma_xdrgen::extract;
use rpcrdma_xdrgen::source::{Source, Sources};
use shapes::{SHAPES, Shape};

const XDRGEN: &str = env!("CARGO_BIN_EXE_rpcrdma-xdrgen");
/// Runs of each command, unless the command line says otherwise.
const RUNS: usize = 101;
/// Parts of the shorter documents.
const PARTS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    // Without `--bench` it is a test run, without optimization: that it works is all there is to see.
    let measures = std::env::args().any(|argument| argument == "--bench");
    let runs = std::env::args().find_map(|argument| argument.parse().ok());
    processes(runs.unwrap_or(if measures { RUNS } else { 1 }).max(1))?;
    shapes_at_two_sizes(if measures { [31, 11] } else { [1, 1] })
}

/// A command that is measured.
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

    /// The command, to be run in a directory with only its input.
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

    /// The most memory that a run had at once, in KiB, where GNU time is there to ask.
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
        println!("rpcgen is not installed: nothing to compare with");
    }
    for _ in 0..runs {
        for contender in &mut all {
            contender.run(&directory(scratch.path(), &xdr)?)?;
        }
    }
    println!("{name}: medians of {runs} runs, whole processes, in turns");
    let first = all.first_mut().map(Contender::median).unwrap_or_default();
    for contender in &mut all {
        let median = contender.median();
        let memory = contender.peak(&directory(scratch.path(), &xdr)?);
        let memory =
            memory.map_or("no GNU time to ask".to_owned(), |kib| format!("{:.1} MB", kib as f64 * 0.001024));
        let ratio = median.as_secs_f64() / first.as_secs_f64();
        println!("  {:8.2} ms  {ratio:6.2}x  peak {memory:>8}  {}", ms(median), contender.name);
    }
    Ok(())
}

/// The document: RFC 5662 if available, else this project's own text of NFS version 3.
fn documents() -> (&'static str, Vec<PathBuf>) {
    let corpus =
        std::env::var_os("XDRGEN_CORPUS").map(|corpus| PathBuf::from(corpus).join("rfc/rfc5662.txt"));
    match corpus.filter(|path| path.exists()) {
        Some(path) => ("RFC 5662", vec![path]),
        None => {
            println!("XDRGEN_CORPUS names no folder with rfc/rfc5662.txt: specs/nfs3.txt stands in");
            let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
            ("specs/nfs3.txt", vec![specs.join("nfs3.txt")])
        }
    }
}

/// The documents' XDR, as rpcgen wants it.
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

/// An empty directory with the XDR in it, since rpcgen does not write over files.
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
    println!("documents of {PARTS} parts, and ten times as many: medians of whole processes");
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

/// The time of `rpcrdma-xdrgen generate` for a document.
fn time_of(shape: &Shape, text: &str, scratch: &Path, runs: usize) -> Result<Duration, Box<dyn Error>> {
    let file = scratch.join(shape.file);
    std::fs::write(&file, text)?;
    let arguments = [Path::new("generate"), &file, Path::new("-o"), &scratch.join("out.rs")];
    let mut contender = Contender::new(shape.name, XDRGEN, &arguments);
    for _ in 0..runs {
        // For an invalid document, the findings take most of the time.
        let ran = contender.run(scratch);
        if shape.sound {
            ran?;
        }
    }
    Ok(contender.median())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
