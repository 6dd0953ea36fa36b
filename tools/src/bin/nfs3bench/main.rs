//! Compares the calls per second of two NFSv3 targets: `nfs3bench TARGET BASELINE`.
//!
//! A target is a URL, accessed with this project's client, or the local mount point of an NFS export. The
//! program makes the same calls on both targets in turn, so that other load on the machine affects both. It
//! prints the ratios of the rates. It checks all data that it writes, and the first and last words of the
//! data that each READ returns.

mod client_file;
mod image;
mod mounted;
mod profiler;
mod table;
mod test_file;
mod turn;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rpcrdma_nfs::output::{self, LevelFilter, LogFormat};
use rpcrdma_tools::cli::nfs3bench::{MeasuredProcedure, Nfs3benchArguments};
use tokio::runtime::Runtime;

use crate::image::Images;
use crate::profiler::Profiler;
use crate::table::{Row, Table};
use crate::test_file::TestFile;
use crate::turn::{Operation, Work};

fn operations(procedure: MeasuredProcedure, sizes: &[usize]) -> Vec<Operation> {
    match procedure {
        MeasuredProcedure::Getattr => vec![Operation::Getattr],
        MeasuredProcedure::Read => sizes.iter().copied().map(Operation::Read).collect(),
        MeasuredProcedure::Write => sizes.iter().copied().map(Operation::Write).collect(),
    }
}

fn main() -> ExitCode {
    output::start_log(LogFormat::Text, LevelFilter::ERROR);
    output::status("nfs3bench", run(&Nfs3benchArguments::parse()), |_| 1)
}

fn run(arguments: &Nfs3benchArguments) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let images = Images::new();
    let spin = Duration::from_micros(arguments.spin);
    let target = TestFile::open(&arguments.target, "nfs3bench-1", spin, &runtime, &images)?;
    let measured =
        TestFile::open(&arguments.baseline, "nfs3bench-2", spin, &runtime, &images).and_then(|baseline| {
            let measured = compare(arguments, [&target, &baseline], &images);
            baseline.remove();
            measured
        });
    target.remove();
    let table = measured?;
    output::print(|out| table.write(out, arguments.rates))
}

fn compare(
    arguments: &Nfs3benchArguments,
    targets: [&TestFile<'_>; 2],
    images: &Images,
) -> anyhow::Result<Table> {
    let operations = arguments.calls.iter().flat_map(|call| operations(*call, &arguments.sizes));
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
                let mut turn = |target: &TestFile<'_>| target.turn(work, images, profiler.as_mut());
                let done = [turn(targets[0])?, turn(targets[1])?];
                calls += done.iter().map(|done| done.calls).sum::<u64>();
                rates.push(done.map(|done| done.rate()));
            }
            cells.push(rates);
        }
        rows.push(Row { operation, cells });
    }
    let names = [&arguments.target, &arguments.baseline].map(ToString::to_string);
    let calls = profiler.map(|_| calls);
    Ok(Table { names, in_flight: arguments.in_flight.clone(), rows, calls })
}
