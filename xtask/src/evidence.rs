//! `cargo xtask evidence`: writes the generated parts of `docs/interop.md`, `docs/benchmarks.md` and
//! `docs/errata.md`.
//!
//! Each generated part is between `<!-- generated: NAME -->` and `<!-- end -->`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::cargo;
use crate::child::print;
use crate::ledger::{self, BENCHMARKS, Entry, INTEROP, Ledger};

/// Options of `cargo xtask evidence`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Benchmarks to run and to record in docs/benchmarks.md
    #[arg(value_name = "BENCH", value_parser = BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>())]
    benches: Vec<String>,
}

const ERRATA: &str = "docs/errata.md";

struct Bench {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Environment variables, which are shown in the recorded command.
    environment: &'static [(&'static str, &'static str)],
    /// The text with which the recorded part of the output begins.
    begin: &'static str,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "speed",
        arguments: &["bench", "-p", "rpcrdma-xdrgen", "--bench", "speed"],
        environment: &[],
        begin: "",
    },
    Bench {
        name: "codec",
        arguments: &["bench", "-p", "rpcrdma-benches", "--bench", "codec", "--features", "peers"],
        environment: &[],
        begin: "Medians in nanoseconds",
    },
    Bench {
        name: "transport",
        arguments: &["bench", "-p", "rpcrdma-benches", "--bench", "transport", "--features", "peers"],
        environment: &[("CARGO_PROFILE_BENCH_LTO", "fat"), ("CARGO_PROFILE_BENCH_CODEGEN_UNITS", "1")],
        begin: "",
    },
    Bench {
        name: "devices-6.12",
        arguments: &["xtask", "lab", "bench", "--kernel", "6.12"],
        environment: &[],
        begin: "",
    },
    Bench {
        name: "devices-6.1",
        arguments: &["xtask", "lab", "bench", "--kernel", "6.1"],
        environment: &[],
        begin: "",
    },
    Bench {
        name: "siege",
        arguments: &["run", "--release", "-p", "rpcrdma-tests", "--bin", "siege"],
        environment: &[],
        begin: "",
    },
];

/// The rows of the matrix: a long job, its client, server, devices and tests.
const MATRIX: &[[&str; 5]] = &[
    ["faults", "each", "each", "user-space iWARP, siw, stock siw", "cut connections, restarts, captures"],
    ["files", "each", "each", "user-space iWARP, siw, stock siw", "trees of thousands of files, large files"],
    ["suites", "Linux 6.12", "nfs3d", "stock siw, user-space iWARP", "fsx, fio, dbench, pjdfstest, rsync"],
    ["suites-guest", "Linux 6.12", "nfs3d", "stock siw, user-space iWARP", "the suites on one machine"],
    ["suites-siw", "Linux 6.12", "nfs3d", "siw (verbs)", "the suites"],
    ["suites-rxe", "Linux 6.12", "nfs3d", "rxe (verbs)", "the suites"],
    ["full-iwarp", "nfs3", "nfs3d", "siw (verbs), user-space iWARP", "every procedure, files, trees"],
    ["full-siw", "each", "each", "siw (verbs)", "scenarios, IPv6, valgrind, removal under load"],
    ["full-rxe", "each", "each", "rxe (verbs)", "scenarios, IPv6, valgrind, removal under load"],
    ["client-siw", "nfs3", "Linux 6.12", "siw (verbs)", "every procedure, credits, 1,000 connections"],
    ["client-rxe", "nfs3", "Linux 6.12", "rxe (verbs)", "every procedure, credits, 1,000 connections"],
    ["server-guest", "Linux 6.12", "nfs3d", "stock siw, user-space iWARP", "mounts, files, cut connections"],
    ["server-siw", "Linux 6.12", "nfs3d", "siw (verbs)", "mounts, files, cut connections"],
    ["server-rxe", "Linux 6.12", "nfs3d", "rxe (verbs)", "mounts, files"],
    [
        "second-kernel",
        "each",
        "each",
        "siw, stock siw, rxe and user-space iWARP",
        "the gate's tests with Linux 6.1",
    ],
    [
        "kerberos",
        "each",
        "each",
        "user-space iWARP, siw, TCP",
        "krb5, krb5i, krb5p; lost and expired contexts",
    ],
    ["libnfs", "libnfs", "nfs3d", "TCP", "nfs-ls, nfs-cat, nfs-cp; the empty path; rpcbind"],
    ["ganesha", "nfs3", "NFS-Ganesha", "TCP", "ls, get, put --verify"],
];

pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    for bench in BENCHES.iter().filter(|bench| options.benches.iter().any(|name| name == bench.name)) {
        put(root, BENCHMARKS, bench.name, &measure(root, bench)?)?;
    }
    interop(root)?;
    errata(root)
}

/// Runs the test that writes the compiler's findings about published documents to `docs/errata.md`. Without
/// `XDRGEN_CORPUS`, only prints a notice.
fn errata(root: &Path) -> Result<(), String> {
    if std::env::var_os("XDRGEN_CORPUS").is_none() {
        print(&format!("{ERRATA}: not written, because XDRGEN_CORPUS is not set"));
        return Ok(());
    }
    let arguments = ["test", "--package", "rpcrdma-xdrgen", "--test", "errata"];
    let mut command = cargo::command(root, &arguments);
    command.env("XDRGEN_BLESS", "1");
    cargo::succeed(command, &arguments)
}

pub(crate) fn record(root: &Path, job: &str, passed: bool, took: Duration) -> Result<(), String> {
    ledger::record(root, job, passed, took)?;
    interop(root)
}

fn interop(root: &Path) -> Result<(), String> {
    put(root, INTEROP, "ledger", &matrix(&Ledger::read(root)?))
}

/// Fails if the matrix in `docs/interop.md` does not match the ledger.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let text = read(root, INTEROP)?;
    if replace(&text, "ledger", &matrix(&Ledger::read(root)?))? == text {
        return Ok(());
    }
    Err(format!("{INTEROP} is outdated: run `cargo xtask evidence`"))
}

fn matrix(ledger: &Ledger) -> String {
    let mut table =
        "| job | client | server | devices | tests | passed |\n|---|---|---|---|---|---|\n".to_owned();
    for [job, client, server, devices, tests] in MATRIX {
        let passed = ledger.last_passed(job).map(|Entry { date, revision, .. }| {
            let day = date.split('T').next().unwrap_or(date);
            format!("{day}, {revision}")
        });
        let passed = passed.as_deref().unwrap_or("not on record");
        let _ = writeln!(table, "| {job} | {client} | {server} | {devices} | {tests} | {passed} |");
    }
    table
}

fn measure(root: &Path, bench: &Bench) -> Result<String, String> {
    let mut command = cargo::command(root, bench.arguments);
    command.envs(bench.environment.iter().copied());
    let output = cargo::stdout(command, bench.arguments)?;
    let begin =
        output.find(bench.begin).ok_or_else(|| format!("the output does not contain `{}`", bench.begin))?;
    let output: Vec<&str> = output[begin..].trim().lines().map(str::trim_end).collect();
    let output = output.join("\n");
    let now = Entry::now(root, bench.name, true, Duration::ZERO)?;
    let variables: String =
        bench.environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let (kernel, processors) = (kernel(), available_parallelism().map_or(1, usize::from));
    let day = now.date.split('T').next().unwrap_or_default().to_owned();
    let arguments = bench.arguments.join(" ");
    Ok(format!(
        "{day}, revision {}, {processors} processors, Linux {kernel}:\n\n```console\n$ {variables}cargo \
         {arguments}\n{output}\n```\n",
        now.revision
    ))
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    if release.is_empty() { "unknown".to_owned() } else { release.to_owned() }
}

fn read(root: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
}

fn put(root: &Path, name: &str, part: &str, content: &str) -> Result<(), String> {
    let text = replace(&read(root, name)?, part, content).map_err(|error| format!("{name}: {error}"))?;
    fs::write(root.join(name), text).map_err(|error| format!("{name}: {error}"))
}

fn replace(text: &str, part: &str, content: &str) -> Result<String, String> {
    let begin = format!("<!-- generated: {part} -->\n");
    let end = "<!-- end -->\n";
    let parts = text.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let (head, tail) =
        parts.ok_or_else(|| format!("`<!-- generated: {part} -->` or its `<!-- end -->` is missing"))?;
    Ok([head, &begin, content, end, tail].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JOBS;

    #[test]
    fn the_matrix_has_every_interop_job() {
        let others = [
            "dist",
            "bench",
            "profile",
            "siege",
            "long-fuzz",
            "mutants",
            "generated-mutants",
            "million-seeds",
        ];
        let jobs: Vec<&str> = JOBS.iter().map(|job| job.name).filter(|job| !others.contains(job)).collect();
        let listed: Vec<&str> = MATRIX.iter().map(|[job, ..]| *job).collect();
        assert_eq!(listed, jobs);
    }

    #[test]
    fn the_matrix_shows_the_latest_run_that_passed() {
        let mut ledger = Ledger::default();
        for (date, passed) in [("2026-01-02T03:04:05Z", true), ("2026-01-03T03:04:05Z", false)] {
            let (date, revision, job) = (date.to_owned(), "abc".to_owned(), "faults".to_owned());
            ledger.add(Entry { date, revision, job, passed, seconds: 1 });
        }
        let table = matrix(&ledger);
        assert!(table.contains("| faults | each | each | user-space iWARP, siw, stock siw | cut connections, restarts, captures | 2026-01-02, abc |\n"));
        assert!(table.contains("| not on record |\n"), "{table}");
    }

    #[test]
    fn only_the_named_part_changes() {
        let text =
            "a\n<!-- generated: one -->\n1\n<!-- end -->\n<!-- generated: two -->\n2\n<!-- end -->\nb\n";
        let changed =
            "a\n<!-- generated: one -->\n1\n<!-- end -->\n<!-- generated: two -->\n3\n<!-- end -->\nb\n";
        assert_eq!(replace(text, "two", "3\n").as_deref(), Ok(changed));
        assert!(replace(text, "three", "").is_err());
    }
}
