//! The project's own chores: `cargo xtask help`.

mod cargo;
mod checks;
mod child;
mod cycles;
mod deny;
mod dist;
mod documents;
mod evidence;
mod filters;
mod flaky;
mod fuzz;
mod gate;
mod interop;
mod jobs;
mod ledger;
mod miri;
mod mutants;
mod packages;
mod report;
mod soak;
mod step;
mod steps;
mod tools;
mod vectors;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rpcrdma_lab as lab;
use xtask::{generate, trace};

/// The project's own chores.
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
    /// Run a step in this process, as `ci` and `soak` do
    #[command(hide = true)]
    Step { name: String },
    /// Run a long job and append the outcome to the ledger
    Soak(soak::Options),
    /// List the long jobs by the age of their latest runs
    Ledger,
    /// Write the generated parts of docs/interop.md, and of docs/benchmarks.md for benchmarks that are named
    Evidence(evidence::Options),
    /// Run the test suite many times on a busy machine
    Flaky(flaky::Options),
    /// Write what rpcrdma-xdrgen emits from specs/, or compare it
    Generate(generate::Arguments),
    /// Make tests/vectors/rpcgen-*.txt again (needs rpcgen, a C compiler, pkg-config and libtirpc)
    Vectors,
    /// Run the fuzz targets, led by coverage (Linux and macOS)
    Fuzz(fuzz::Arguments),
    /// Run the tests of RDMA devices under Miri, over a fake device (needs a nightly Rust with Miri)
    Miri(miri::Arguments),
    /// Put deliberate mistakes into a scratch copy, and report those that no test notices
    Mutants(mutants::Arguments),
    /// List the rules of the source documents, their status, and their tests
    Trace(trace::Arguments),
    /// Build the archive of static programs; `--check` tests it, too
    Dist(dist::Arguments),
    /// Check that a release can be published, and pack it; publishes nothing
    Release(dist::Arguments),
    /// Boot Linux's NFS/RDMA client and server in a guest (see CONTRIBUTING.md)
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
