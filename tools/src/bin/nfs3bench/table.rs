//! Prints the target's call rate relative to the baseline's, with a line for each operation.

use std::io::{self, Write};

use crate::turn::Operation;

/// The calls per second of target and baseline in one round.
type Rates = [f64; 2];

pub(crate) struct Row {
    pub(crate) operation: Operation,
    /// The rates of each round, for each number of outstanding calls.
    pub(crate) cells: Vec<Vec<Rates>>,
}

pub(crate) struct Table {
    pub(crate) names: [String; 2],
    pub(crate) in_flight: Vec<usize>,
    pub(crate) rows: Vec<Row>,
    /// The number of calls during recording, if a profiler ran.
    pub(crate) calls: Option<u64>,
}

impl Table {
    /// Writes the table. A cell has the ratio of the median rates, then the minimum and maximum ratio of all
    /// rounds. With `rates`, a cell also has the median rates.
    pub(crate) fn write(&self, out: &mut dyn Write, rates: bool) -> io::Result<()> {
        writeln!(out, "{}", self.names[0])?;
        writeln!(out, "    by {}", self.names[1])?;
        write!(out, "{:<14}", "in flight")?;
        for in_flight in &self.in_flight {
            write!(out, "{in_flight:>4}{:18}", "")?;
            if rates {
                write!(out, "{:24}", "")?;
            }
        }
        writeln!(out)?;
        for Row { operation, cells } in &self.rows {
            write!(out, "{operation:<14}")?;
            for rounds in cells {
                let [target, baseline] = [0, 1].map(|which| median(rounds.iter().map(|rates| rates[which])));
                let ratios = || rounds.iter().map(|[target, baseline]| target / baseline);
                let (min, max) = (ratios().fold(f64::MAX, f64::min), ratios().fold(0.0, f64::max));
                write!(out, "{:>4.2} ({min:.2} to {max:.2})    ", target / baseline)?;
                if rates {
                    write!(out, "{target:>8.0} by {baseline:>8.0}    ")?;
                }
            }
            writeln!(out)?;
        }
        self.calls.map_or(Ok(()), |calls| writeln!(out, "calls recorded: {calls}"))
    }
}

/// Returns the median; for an even number of values, the upper median.
fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_ratio_of_medians_and_the_range() {
        let rounds = vec![[10.0, 20.0], [30.0, 20.0], [20.0, 40.0]];
        let row = Row { operation: Operation::Read(65_536), cells: vec![rounds] };
        let table =
            Table { names: ["a".into(), "b".into()], in_flight: vec![16], rows: vec![row], calls: None };
        let mut out = Vec::new();
        table.write(&mut out, false).unwrap();
        let output = String::from_utf8(out).unwrap();
        assert_eq!(output.lines().last().map(str::trim_end), Some("READ 64 KiB   1.00 (0.50 to 1.50)"));
    }
}
