//! Prints medians, allocations, and ratios with their goals.

use std::collections::HashMap;
use std::time::Duration;

use super::TRANSPORTS;
use super::rows::{Base, ROWS, Row};

pub(crate) enum Figure {
    /// The time per call.
    Time(Duration),
    /// The total number of allocations in all calls of the row.
    Allocations(u64),
}

#[derive(Default)]
pub(crate) struct Report {
    times: HashMap<(&'static str, &'static str), Vec<f64>>,
    allocations: HashMap<(&'static str, &'static str), f64>,
}

impl Report {
    pub(crate) fn add(&mut self, row: &Row, transport: &'static str, figure: Figure) {
        let key = (row.key, transport);
        match figure {
            Figure::Time(time) => self.times.entry(key).or_default().push(time.as_secs_f64() * 1e6),
            Figure::Allocations(count) => {
                self.allocations.insert(key, count as f64 / row.calls_as_f64());
            }
        }
    }

    fn median(&self, row: &'static str, transport: &'static str) -> Option<f64> {
        let mut times = self.times.get(&(row, transport))?.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    }

    #[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
    pub(crate) fn print(&self, runtime: &str) {
        println!("\n{runtime}\n\nMicroseconds per call: median (minimum, maximum)");
        table(&TRANSPORTS, 24, |row, transport| {
            let times = self.times.get(&(row.key, transport))?;
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = times.iter().copied().fold(0.0, f64::max);
            Some(format!("{:.1} ({least:.1}, {greatest:.1})", self.median(row.key, transport)?))
        });
        if !self.allocations.is_empty() {
            println!("\nAllocations per call, client and server together");
            table(&TRANSPORTS, 10, |row, transport| {
                self.allocations.get(&(row.key, transport)).map(|count| format!("{count:.2}"))
            });
        }
        self.print_ratios();
    }

    #[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
    fn print_ratios(&self) {
        println!(
            "\nRatios of the medians to those of raw TCP (goal); for READ 1 MiB, 16 in flight: \
             to those of READ 1 MiB; for NULL with a log: to those of NULL"
        );
        let columns = ["nfs3", "tcp", "iwarp", "nocrc", "iwarp/nfs3", "tcp/nocrc"];
        table(&columns, 14, |row, column| {
            if let Some((over, under)) = column.split_once('/') {
                let ratio = self.median(row.key, over)? / self.median(row.key, under)?;
                let goal = if column == "tcp/nocrc" { " (1)" } else { "" };
                return Some(format!("{ratio:.2}{goal}"));
            }
            let base = match row.base {
                Base::Raw(key) => self.median(key, "raw")?,
                Base::Same(key) => self.median(key, column)?,
            };
            let ratio = self.median(row.key, column)? / base;
            let goal = match column {
                "iwarp" => row.goals[0],
                "nocrc" => row.goals[1],
                _ => None,
            };
            Some(goal.map_or_else(|| format!("{ratio:.2}"), |goal| format!("{ratio:.2} ({goal})")))
        });
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn table(columns: &[&'static str], width: usize, cell: impl Fn(&Row, &'static str) -> Option<String>) {
    print!("{:<26}", "");
    columns.iter().for_each(|column| print!("{column:>width$}"));
    println!();
    for row in &ROWS {
        print!("{:<26}", row.name);
        columns.iter().for_each(|column| print!("{:>width$}", cell(row, column).unwrap_or_default()));
        println!();
    }
}
