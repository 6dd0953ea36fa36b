//! The command line of `nfs3bench`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{CommandFactory, Parser, ValueEnum};
use rpcrdma_nfs::client::{Url, UrlError};

/// The maximum size of a READ or WRITE, in bytes.
pub const MAX_TRANSFER: usize = 1 << 20;

/// Compares the rates of GETATTR, READ and WRITE calls on two NFSv3 targets.
///
/// A target is the URL of a directory (rdma://HOST/PATH or tcp://HOST/PATH, with :PORT after HOST if needed),
/// or the local mount point of an NFS export. The built-in client accesses URLs. The program
/// creates a file of 16 MiB in each directory, and removes both files at the end. Exit status: 0 success; 1
/// failure; 2 invalid command line; 141 standard output closed.
#[derive(Debug, Parser)]
#[command(name = "nfs3bench", version)]
#[non_exhaustive]
pub struct Nfs3benchArguments {
    /// The target to measure
    pub target: Target,
    /// The target to compare with
    pub baseline: Target,
    /// The number of rounds for each measurement; the result is the ratio of the median rates
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// The time for each target in a round, in milliseconds
    #[arg(long, default_value_t = 1000)]
    pub turn: u64,
    /// The procedures to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = MeasuredProcedure::value_variants().to_vec())]
    pub calls: Vec<MeasuredProcedure>,
    /// Numbers of outstanding calls
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16], value_parser = in_flight)]
    pub in_flight: Vec<usize>,
    /// Sizes of READ and WRITE, in bytes
    #[arg(long, value_delimiter = ',', default_values_t = [4096, 65_536, 1_048_576], value_parser = size)]
    pub sizes: Vec<usize>,
    /// Time for which the built-in client polls an RDMA device before it sleeps, in microseconds
    #[arg(long, default_value_t = 0)]
    pub spin: u64,
    /// The FIFO of `perf record --delay=-1 --control=fifo:FIFO`; perf records only during the measured calls
    #[arg(long)]
    pub perf: Option<PathBuf>,
    /// Also print the calls per second of both targets
    #[arg(long)]
    pub rates: bool,
}

/// A procedure to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names of NFSv3's procedures")]
pub enum MeasuredProcedure {
    Getattr,
    Read,
    Write,
}

/// A directory for the test file.
#[derive(Clone, Debug)]
pub enum Target {
    /// A directory on a server, accessed by the built-in client.
    Url(Url),
    /// The local mount point of an NFS export.
    Directory(PathBuf),
}

impl FromStr for Target {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.contains("://") { text.parse().map(Target::Url) } else { Ok(Target::Directory(text.into())) }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Url(url) => url.fmt(f),
            Target::Directory(path) => path.display().fmt(f),
        }
    }
}

fn in_flight(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| (1..=128).contains(count))
        .ok_or("expected 1 to 128 outstanding calls".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    let fits = |size: &usize| size.is_multiple_of(512) && (512..=MAX_TRANSFER).contains(size);
    text.parse()
        .ok()
        .filter(fits)
        .ok_or_else(|| format!("expected a multiple of 512, from 512 to {MAX_TRANSFER} bytes"))
}

/// Returns the definition of the command line, for man pages and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    Nfs3benchArguments::command()
}
