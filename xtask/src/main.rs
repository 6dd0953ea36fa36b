//! Project maintenance tasks: `cargo xtask help`.

mod binaries;
mod book;
mod cargo;
mod checks;
mod child;
mod clean_root;
mod cycles;
mod deny;
mod dist;
mod documents;
mod evidence;
mod filters;
mod flaky;
mod fuzz;
mod gate;
mod guides;
mod interop;
mod jobs;
mod ledger;
mod miri;
mod mutants;
mod optional;
mod packages;
mod peers;
mod report;
mod security;
mod shell;
mod soak;
mod step;
mod steps;
mod stress;
mod tools;
mod vectors;
mod walk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rpcrdma_lab as lab;
use xtask::{generate, trace};

/// Project maintenance tasks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the gate: all checks required for a change, or the named steps
    Ci(gate::Options),
    /// Run a step in this process, for `ci` and `soak`
    #[command(hide = true)]
    Step { name: String },
    /// Run a long job and append the outcome to the ledger
    Soak(soak::Options),
    /// List the long jobs by the age of their latest runs
    Ledger,
    /// Write the generated parts of docs/interop.md, of docs/errata.md (needs XDRGEN_CORPUS), and of
    /// docs/benchmarks.md for the named benchmarks
    Evidence(evidence::Options),
    /// Run the test suite many times on a busy machine
    Flaky(flaky::Options),
    /// Write the output of rpcrdma-xdrgen for specs/, or compare it with the existing files
    Generate(generate::Arguments),
    /// Regenerate tests/vectors/rpcgen-*.txt (needs rpcgen, a C compiler, pkg-config and libtirpc)
    Vectors,
    /// Run the fuzz targets with coverage guidance (Linux and macOS)
    Fuzz(fuzz::Arguments),
    /// Run the tests of RDMA devices under Miri, with a fake device (needs a nightly toolchain with Miri)
    Miri(miri::Arguments),
    /// Make mutations in a scratch copy, and report those that no test detects
    Mutants(mutants::Arguments),
    /// List the rules of the source documents, their status, and their tests
    Trace(trace::Arguments),
    /// Build the archive of statically linked programs; `--check` also tests it
    Dist(dist::Arguments),
    /// Check that a release can be published, and pack it without publishing it
    Release(dist::Arguments),
    /// Build and run a guest with Linux's NFS/RDMA client and server (see CONTRIBUTING.md)
    #[command(subcommand)]
    Lab(lab::Task),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(status) => status,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode, String> {
    let root = &cargo::root()?;
    match task {
        Task::Ci(options) => return gate::run(root, &options),
        Task::Soak(options) => return soak::run(root, &options),
        Task::Lab(task) => return lab::run(&task).map(ExitCode::from),
        Task::Step { name } => gate::step(root, &name),
        Task::Ledger => soak::list(root),
        Task::Evidence(options) => evidence::run(root, &options),
        Task::Flaky(options) => flaky::run(root, &options),
        Task::Vectors => vectors::run(root),
        Task::Generate(arguments) => generate::run(root, &arguments),
        Task::Fuzz(arguments) => fuzz::run(root, &arguments),
        Task::Miri(arguments) => miri::run(root, &arguments),
        Task::Mutants(arguments) => mutants::run(root, &arguments),
        Task::Trace(arguments) => trace::run(root, &arguments),
        Task::Dist(arguments) => dist::run(root, &["dist"], &arguments),
        Task::Release(arguments) => dist::run(root, &["release", "--jobs", &jobs::job_names()], &arguments),
    }
    .map(|()| ExitCode::SUCCESS)
}
