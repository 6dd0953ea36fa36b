//! Compares the calls per second of two ways to access NFSv3 files: `nfs3bench WAY OTHER`.
//!
//! A way is a URL, which uses this project's client, or a directory in which Linux has mounted an export.
//! Both make the same calls, and they alternate, so that other load on the machine affects both. The program
//! prints ratios. It checks the data that it reads and writes.

mod called;
mod image;
mod mounted;
mod profiler;
mod table;
mod turn;
mod way;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rpcrdma_nfs::output::{self, LogFormat, one_line};
use rpcrdma_tools::cli::nfs3bench::{Arguments, Procedure};
use tokio::runtime::Runtime;

use crate::image::Images;
use crate::profiler::Profiler;
use crate::table::{Row, Table};
use crate::turn::{Operation, Work};
use crate::way::Way;

/// Returns the operations to measure for a procedure, one for each size.
fn operations(procedure: Procedure, sizes: &[usize]) -> Vec<Operation> {
    match procedure {
        Procedure::Getattr => vec![Operation::Getattr],
        Procedure::Read => sizes.iter().copied().map(Operation::Read).collect(),
        Procedure::Write => sizes.iter().copied().map(Operation::Write).collect(),
    }
}

fn main() -> ExitCode {
    output::start_log(LogFormat::Text);
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
        // A file that cannot be removed is reported, but does not hide an error of the measurement.
        if let Err(error) = way.remove() {
            output::complain("nfs3bench", one_line(&error));
        }
    }
    let table = measured?;
    output::print(|out| table.write(out, arguments.rates))
}

fn compare(arguments: &Arguments, ways: &[Way<'_>; 2], images: &Images) -> anyhow::Result<Table> {
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
