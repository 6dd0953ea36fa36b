//! `cargo xtask fuzz`: builds the targets of `fuzz/` with the stable compiler, and runs them with coverage
//! guidance.
//!
//! `cargo fuzz` needs a nightly compiler for its memory sanitizers. These targets look for panics, hangs
//! and broken invariants of safe code, for which libFuzzer and the stable compiler's coverage suffice.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cargo;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The targets (default: all)
    pub(crate) targets: Vec<String>,
    /// Run time of each target, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
}

/// Each target, and the directory in `fuzz/seeds` that contains the target's seeds.
const TARGETS: &[(&str, &str)] = &[
    ("check", "documents"),
    ("generate", "documents"),
    ("header", "header"),
    ("private_data", "private_data"),
    ("records", "records"),
    ("requester", "requester"),
    ("responder", "responder"),
    ("iwarp", "iwarp"),
    ("files", "files"),
    ("directory", "files"),
    ("credentials", "credentials"),
    ("gss", "gss"),
    ("rpcbind", "rpcbind"),
    ("explain", "explain"),
    ("tcp", "tcp"),
    ("client", "client"),
];

/// rustc flags that enable debug assertions, overflow checks, and coverage instrumentation for libFuzzer.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

/// Builds the targets, and runs one target per core at a time. The corpora stay in `target/fuzz/corpus`.
/// Inputs on which a target fails are stored in `target/fuzz/found`.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let chosen = chosen(&arguments.targets)?;
    let target = cargo::target(root);
    let folder = target.join("fuzz");
    let host = host()?;
    let mut build = Command::new("cargo");
    build
        .args(["build", "--release", "--target", &host, "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"));
    for (name, _) in &chosen {
        build.args(["--bin", name]);
    }
    succeed(build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &folder), "cannot build the fuzz targets")?;
    let programs = folder.join(&host).join("release");
    let queue = Mutex::new(chosen.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    // Each target has one thread, so each core runs one target.
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let work = || {
            while let Some((name, seeds)) = next() {
                fuzz(&programs.join(name), &folder, &root.join("fuzz/seeds").join(seeds), arguments.seconds)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
    })
}

fn fuzz(program: &Path, folder: &Path, seeds: &Path, seconds: u64) -> Result<(), String> {
    let name = program.file_name().unwrap_or_default().display();
    let (corpus, found) = (folder.join("corpus").join(name.to_string()), folder.join("found"));
    for folder in [&corpus, &found] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut run = Command::new(program);
    run.arg(format!("-max_total_time={seconds}"))
        .args(["-timeout=20", "-rss_limit_mb=1024", "-print_final_stats=1", "-verbosity=0"])
        .arg(format!("-artifact_prefix={}/{name}-", found.display()))
        .arg(corpus)
        .arg(seeds);
    eprintln!("==> {name}, {seconds} s");
    succeed(&mut run, &format!("{name} found a failure: see {}", found.display()))
}

fn chosen(names: &[String]) -> Result<Vec<(&'static str, &'static str)>, String> {
    if names.is_empty() {
        return Ok(TARGETS.to_vec());
    }
    let find = |name: &String| {
        TARGETS.iter().find(|(target, _)| target == name).copied().ok_or_else(|| {
            let all: Vec<_> = TARGETS.iter().map(|(target, _)| *target).collect();
            format!("unknown target `{name}`; the targets are {}", all.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// Returns the host's target triple. If cargo receives the triple explicitly, [`FLAGS`] do not apply to build
/// scripts.
fn host() -> Result<String, String> {
    let output =
        Command::new("rustc").arg("-vV").output().map_err(|error| format!("`rustc -vV`: {error}"))?;
    let output = String::from_utf8_lossy(&output.stdout);
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "the output of `rustc -vV` has no line `host: ...`".to_owned())
}

fn succeed(command: &mut Command, otherwise: &str) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{otherwise} ({status})")),
        Err(error) => Err(format!("`{name}`: {error}")),
    }
}
