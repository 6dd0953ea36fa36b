//! The project's own chores: `cargo xtask help`.

mod ci;
mod dist;
mod fuzz;
mod miri;
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
    /// Check everything that needs no test run: formatting, layers, lints, no_std, docs, freshness
    Ci(ci::Options),
    /// Write what xdrgen emits from specs/, or compare it
    Generate(generate::Arguments),
    /// Make tests/vectors/rpcgen-*.txt again (needs rpcgen, a C compiler, pkg-config and libtirpc)
    Vectors,
    /// Run the fuzz targets, led by coverage (Linux and macOS)
    Fuzz(fuzz::Arguments),
    /// Run the tests of RDMA devices under Miri, over a pretend one (needs a nightly Rust with Miri)
    Miri(miri::Arguments),
    /// Say which rules of the source documents are met, and by which tests
    Trace(trace::Arguments),
    /// Build the archive of static programs; `--check` tests it, too
    Dist(dist::Arguments),
    /// Check that a release can be published, and pack it; publishes nothing
    Release(dist::Arguments),
    /// Boot Linux's own NFS/RDMA client and server in a guest: CONTRIBUTING.md says what for
    #[command(subcommand)]
    Lab(lab::Task),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Ci(options) => ci::run(&options),
        Task::Vectors => ci::root().and_then(|root| vectors::run(&root)),
        Task::Generate(arguments) => ci::root().and_then(|root| generate::run(&root, &arguments)),
        Task::Fuzz(arguments) => ci::root().and_then(|root| fuzz::run(&root, &arguments)),
        Task::Miri(arguments) => ci::root().and_then(|root| miri::run(&root, &arguments)),
        Task::Trace(arguments) => ci::root().and_then(|root| trace::run(&root, &arguments)),
        Task::Dist(arguments) => ci::root().and_then(|root| dist::run(&root, "dist", &arguments)),
        Task::Release(arguments) => ci::root().and_then(|root| dist::run(&root, "release", &arguments)),
        Task::Lab(task) => match lab::run(&task) {
            Ok(status) => return ExitCode::from(status),
            Err(message) => Err(message),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
