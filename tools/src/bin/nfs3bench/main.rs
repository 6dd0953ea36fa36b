//! Compares two ways to the files of NFSv3 servers by how many calls a second each does: `nfs3bench WAY OTHER`.
//!
//! A way is a URL, which our client uses, or the directory where Linux has mounted an export. Both do the same calls, of the
//! same sizes, one at a time or several, and take turns, so that whatever else the machine does slows both. What is printed are
//! ratios. Data that is read is looked at, and what was written is read back.

mod called;
mod image;
mod mounted;
mod profiler;
mod table;
mod turn;
mod way;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rpcrdma_nfs::client::one_line;
use rpcrdma_nfs::output;
use tokio::runtime::Runtime;

use crate::image::Images;
use crate::profiler::Profiler;
use crate::table::{Row, Table};
use crate::turn::{Operation, Work};
use crate::way::{Name, Way};

/// Compares two ways to the files of NFSv3 servers: how many GETATTR, READ and WRITE calls one does in the time in which the other
/// does one.
///
/// A way is rdma://HOST:PORT/PATH or tcp://HOST:PORT/PATH, a directory that our client uses, or a local directory where Linux has
/// mounted an export. In each a file of 16 MiB is made, and removed at the end. Exit status: 0 done, 1 not.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What is measured
    way: Name,
    /// What it is measured by
    other: Name,
    /// How often each has its turn at everything; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long a turn is, in milliseconds
    #[arg(long, default_value_t = 1000)]
    turn: u64,
    /// Which calls
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Procedure::value_variants().to_vec())]
    calls: Vec<Procedure>,
    /// Calls at a time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16], value_parser = in_flight)]
    in_flight: Vec<usize>,
    /// Bytes that a READ or WRITE has
    #[arg(long, value_delimiter = ',', default_values_t = [4096, 65_536, 1_048_576], value_parser = size)]
    sizes: Vec<usize>,
    /// How many microseconds our client looks for more before it sleeps, over an RDMA device
    #[arg(long, default_value_t = 0)]
    spin: u64,
    /// A FIFO that `perf record --delay=-1 --control=fifo:FIFO` reads: it records the turns, and nothing between them
    #[arg(long)]
    perf: Option<PathBuf>,
    /// Print calls a second as well, of both
    #[arg(long)]
    rates: bool,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Procedure {
    Getattr,
    Read,
    Write,
}

impl Procedure {
    /// What is measured of it, with data of these sizes.
    fn operations(self, sizes: &[usize]) -> Vec<Operation> {
        match self {
            Procedure::Getattr => vec![Operation::Getattr],
            Procedure::Read => sizes.iter().copied().map(Operation::Read).collect(),
            Procedure::Write => sizes.iter().copied().map(Operation::Write).collect(),
        }
    }
}

fn in_flight(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=128).contains(count)).ok_or("1 to 128 calls at a time".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    let fits = |size: &usize| size.is_multiple_of(512) && (512..=image::PIECE).contains(size);
    text.parse().ok().filter(fits).ok_or_else(|| format!("a multiple of 512, up to {}", image::PIECE))
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    output::status("nfs3bench", run(&Arguments::parse()), |_| 1)
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let images = Images::new();
    let spin = Duration::from_micros(arguments.spin);
    let ways = [
        Way::open(&arguments.way, "nfs3bench-1", spin, &runtime, &images)?,
        Way::open(&arguments.other, "nfs3bench-2", spin, &runtime, &images)?,
    ];
    let measured = compare(arguments, &ways, &images);
    for way in ways {
        // What is left behind is a file of that name; what went wrong before counts more.
        if let Err(error) = way.remove() {
            output::complain("nfs3bench", one_line(&error));
        }
    }
    let table = measured?;
    output::print(|out| table.write(out, arguments.rates))
}

fn compare(arguments: &Arguments, ways: &[Way<'_>; 2], images: &Images) -> anyhow::Result<Table> {
    let operations = arguments.calls.iter().flat_map(|call| call.operations(&arguments.sizes));
    let time = Duration::from_millis(arguments.turn);
    let mut profiler = arguments.perf.as_deref().map(Profiler::open).transpose()?;
    let mut rows = Vec::new();
    let mut calls = 0;
    for operation in operations {
        let mut cells = Vec::new();
        for &in_flight in &arguments.in_flight {
            let work = Work { operation, in_flight, time };
            let mut rates = Vec::new();
            for _ in 0..arguments.rounds {
                let mut turn = |way: &Way<'_>| way.turn(work, images, profiler.as_mut());
                let done = [turn(&ways[0])?, turn(&ways[1])?];
                calls += done.iter().map(|done| done.calls).sum::<u64>();
                rates.push(done.map(|done| done.rate()));
            }
            cells.push(rates);
        }
        rows.push(Row { operation, cells });
    }
    let names = [&arguments.way, &arguments.other].map(ToString::to_string);
    let calls = profiler.map(|_| calls);
    Ok(Table { names, in_flight: arguments.in_flight.clone(), rows, calls })
}
