//! Measures the time and allocations of NFSv3 calls over our transports, and compares them with raw TCP and
//! the `nfs3` crates. Also measures a server's memory per idle connection.
//!
//! `cargo bench -p rpcrdma-benches --bench transport --features peers -- [ROUNDS]`
//!
//! Client and server use the loopback interface and share one process, except in the measurement of idle
//! connections. Files are in memory. Every round runs each row on all transports in turn, so that a slow
//! phase of the machine affects all transports.
//!
//! For a profiler, `ONLY="null"` runs one row over iWARP. `ONLY="read1m tcp spawned"` runs another row
//! over TCP on the multi-thread runtime. `ONLY=idle` measures idle connections only.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a benchmark that cannot continue panics

mod idle;
mod log;
mod nfs3;
mod ours;
mod raw;
mod report;
mod rows;

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use report::{Figure, Report};
use rows::{ROWS, Row};

/// A client and the server that it is connected to.
trait Transport: Send {
    /// Returns a future that runs all calls of a row, or `None` if the transport does not support the row.
    fn run<'a>(&'a mut self, row: &'a Row) -> Option<Batch<'a>>;
}

type Batch<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

const TRANSPORTS: [&str; 5] = ["raw", "nfs3", "tcp", "iwarp", "nocrc"];

async fn connect() -> [Box<dyn Transport>; 5] {
    let ours = ours::Served::start().await;
    [
        Box::new(raw::Raw::connect().await),
        Box::new(nfs3::Crates::connect().await),
        Box::new(ours.tcp().await),
        Box::new(ours.iwarp(true).await),
        Box::new(ours.iwarp(false).await),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum Flavour {
    /// Everything on the current thread.
    CurrentThread,
    /// Worker threads, with the caller in a spawned task.
    Spawned,
}

impl Flavour {
    const ALL: [(Flavour, &str); 2] = [
        (Flavour::CurrentThread, "current-thread runtime"),
        (Flavour::Spawned, "multi-thread runtime, caller in a spawned task"),
    ];

    fn runtime(self) -> Runtime {
        let mut builder = match self {
            Flavour::CurrentThread => Builder::new_current_thread(),
            Flavour::Spawned => Builder::new_multi_thread(),
        };
        builder.enable_all().build().unwrap()
    }

    fn time(
        self,
        runtime: &Runtime,
        mut transport: Box<dyn Transport>,
        row: &'static Row,
    ) -> (Box<dyn Transport>, Option<Duration>) {
        row.log.select();
        let run = async move {
            let start = Instant::now();
            let ran = match transport.run(row) {
                Some(batch) => {
                    batch.await;
                    true
                }
                None => false,
            };
            let elapsed = start.elapsed();
            (transport, ran.then_some(elapsed))
        };
        match self {
            Flavour::CurrentThread => runtime.block_on(run),
            Flavour::Spawned => runtime.block_on(runtime.spawn(run)).unwrap(),
        }
    }
}

fn main() {
    if idle::serve_if_child() {
        return;
    }
    let only = std::env::var("ONLY").unwrap_or_default();
    if only == "idle" {
        return idle::measure();
    }
    if !only.is_empty() {
        return run_only(&only);
    }
    print_congestion_control();
    // Cargo adds the argument `--bench`, which is not a number.
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(15);
    for (flavour, name) in Flavour::ALL {
        compare(flavour, rounds).print(name);
    }
    idle::measure();
}

/// Prints the congestion control algorithm of new connections on Linux. Some algorithms delay large
/// messages on the loopback interface.
#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn print_congestion_control() {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    println!("TCP congestion control: {}", name.trim());
}

fn compare(flavour: Flavour, rounds: usize) -> Report {
    let runtime = flavour.runtime();
    let mut transports = runtime.block_on(connect()).map(Some);
    let mut report = Report::default();
    // The first round warms up sockets, buffers and caches.
    for round in 0..=rounds {
        for row in &ROWS {
            for (transport, column) in transports.iter_mut().zip(TRANSPORTS) {
                let (back, elapsed) = flavour.time(&runtime, transport.take().unwrap(), row);
                *transport = Some(back);
                if let Some(elapsed) = elapsed.filter(|_| round > 0) {
                    report.add(row, column, Figure::Time(elapsed.div_f64(row.calls_as_f64())));
                }
            }
        }
    }
    // Allocations are counted per thread, so the count is complete only if one thread runs client and server.
    if flavour == Flavour::CurrentThread {
        for row in &ROWS {
            for (transport, column) in transports.iter_mut().zip(TRANSPORTS) {
                let mut taken = transport.take();
                let mut ran = false;
                let counted = allocation_counter::measure(|| {
                    let (back, elapsed) = flavour.time(&runtime, taken.take().unwrap(), row);
                    (*transport, ran) = (Some(back), elapsed.is_some());
                });
                if ran {
                    report.add(row, column, Figure::Allocations(counted.count_total));
                }
            }
        }
    }
    report
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn run_only(only: &str) {
    let words: Vec<&str> = only.split_whitespace().collect();
    let row = ROWS.iter().find(|row| words.contains(&row.key));
    let Some(row) = row else {
        let keys = ROWS.map(|row| row.key).join(" ");
        return println!(
            "ONLY={only:?} names no row: use `idle`, or one of {keys}; optionally `spawned` and one of {}",
            TRANSPORTS.join(" ")
        );
    };
    let flavour = if words.contains(&"spawned") { Flavour::Spawned } else { Flavour::CurrentThread };
    let index = TRANSPORTS.iter().position(|name| words.contains(name)).unwrap_or(3);
    let runtime = flavour.runtime();
    let mut transport = runtime.block_on(connect()).into_iter().nth(index).unwrap();
    let (start, mut calls, mut elapsed) = (Instant::now(), 0.0, Duration::ZERO);
    while start.elapsed() < Duration::from_secs(3) {
        let (back, time) = flavour.time(&runtime, transport, row);
        transport = back;
        let Some(time) = time else { return println!("{only}: the transport does not support this row") };
        elapsed += time;
        calls += row.calls_as_f64();
    }
    println!("{only}: {:.2} us per call", elapsed.as_secs_f64() / calls * 1e6);
}
