//! `cargo xtask dist` and `cargo xtask release`: the archive of statically linked programs, and the checks
//! before a release.
#![allow(clippy::print_stdout, reason = "the output of a program")]

mod archive;
mod check;
mod licenses;
mod pages;
mod release;
mod run;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Distribution: builds and checks the archive and the packages. Publishes nothing.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build target/dist/rpcrdma-VERSION-ARCH-linux-musl.tar.gz
    Dist {
        /// Also run nfs3d and nfs3 in minimal root directories, and check man pages, completions and the unit
        /// (needs root)
        #[arg(long)]
        check: bool,
        /// Build nothing; check the existing archive
        #[arg(long, requires = "check")]
        no_build: bool,
    },
    /// Check that a release can be published, pack its crates, and build the archive
    Release(release::Options),
}

fn main() -> ExitCode {
    match perform() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform() -> Result<()> {
    let workspace = Workspace::find()?;
    match Arguments::parse().task {
        Task::Dist { check, no_build } => {
            let archive = if no_build { archive::path(&workspace)? } else { archive::build(&workspace)? };
            if check { check::run(&workspace, &archive) } else { Ok(()) }
        }
        Task::Release(options) => release::run(&workspace, &options),
    }
}
