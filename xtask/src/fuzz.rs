//! `cargo xtask fuzz`: the targets of `fuzz/`, led by coverage, with the Rust that everything else needs.
//!
//! `cargo fuzz` needs a nightly compiler for its memory sanitizers. These targets look for panics, hangs
//! and broken invariants of safe code, for which libFuzzer and the stable compiler's coverage suffice.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The targets to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The targets (default: all)
    pub(crate) targets: Vec<String>,
    /// Run time of each target, in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
}

/// Each target, and the folder of `fuzz/seeds` that it begins from.
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
    ("credentials", "credentials"),
    ("gss", "gss"),
    ("rpcbind", "rpcbind"),
    ("explain", "explain"),
    ("tcp", "tcp"),
    ("client", "client"),
];

/// Marks of coverage that libFuzzer follows, and checks that a release does without.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

/// Builds the targets and runs them in sequence. Their corpora stay in `target/fuzz/corpus`; inputs that
/// crash a target are in `target/fuzz/found`.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let chosen = chosen(&arguments.targets)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = target.join("fuzz");
    let host = host()?;
    let mut build = Command::new("cargo");
    build
        .args(["build", "--release", "--target", &host, "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"));
    for (name, _) in &chosen {
        build.args(["--bin", name]);
    }
    succeed(build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &folder), "the targets do not build")?;
    for (name, seeds) in &chosen {
        let (corpus, found) = (folder.join("corpus").join(name), folder.join("found"));
        for folder in [&corpus, &found] {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut run = Command::new(folder.join(&host).join("release").join(name));
        run.arg(format!("-max_total_time={}", arguments.seconds))
            .args(["-timeout=20", "-rss_limit_mb=1024", "-print_final_stats=1", "-verbosity=0"])
            .arg(format!("-artifact_prefix={}/{name}-", found.display()))
            .arg(corpus)
            .arg(root.join("fuzz/seeds").join(seeds));
        eprintln!("==> {name}, {} s", arguments.seconds);
        succeed(&mut run, &format!("{name} found something: see {}", found.display()))?;
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<(&'static str, &'static str)>, String> {
    if names.is_empty() {
        return Ok(TARGETS.to_vec());
    }
    let find = |name: &String| {
        TARGETS.iter().find(|(target, _)| target == name).copied().ok_or_else(|| {
            let all: Vec<_> = TARGETS.iter().map(|(target, _)| *target).collect();
            format!("there is no target `{name}`: there are {}", all.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// The host's target triple. Naming it keeps the flags from build scripts.
fn host() -> Result<String, String> {
    let said = Command::new("rustc").arg("-vV").output().map_err(|error| format!("`rustc -vV`: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` does not name its host".to_owned())
}

fn succeed(command: &mut Command, otherwise: &str) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{otherwise} ({status})")),
        Err(error) => Err(format!("`{name}`: {error}")),
    }
}
