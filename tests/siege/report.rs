//! The table of phases, and the rules that they must keep.

use std::fmt;
use std::time::Duration;

use crate::honest::Record;

/// Maximum resident memory of the server in bytes.
const MAX_RSS: u64 = 256 << 20;
/// Resident memory in bytes that the server may have more than before its first attack: half of the limit,
/// because allocators keep some freed memory.
pub(crate) const KEPT_RSS: u64 = MAX_RSS / 2;
/// How much slower than unloaded the 99th percentile of honest calls may be.
const SLOWDOWN: u32 = 10;

/// The observations of one phase: before, during or after an attack.
#[derive(Default)]
pub(crate) struct Phase {
    /// Maximum resident memory in bytes.
    pub(crate) rss: u64,
    /// Maximum number of connections.
    pub(crate) connections: usize,
    pub(crate) honest: Record,
}

impl Phase {
    /// Returns the latency that this share of the calls does not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.honest.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.rss.div_ceil(1 << 20);
        write!(f, "{mib:>6} MiB {:>6} {:>7}", self.connections, self.honest.latencies.len())?;
        write!(f, " {:>6}", self.honest.failures.len())?;
        for percent in [50, 99, 100] {
            write!(f, " {:>8.2} ms", self.percentile(percent).as_secs_f64() * 1e3)?;
        }
        Ok(())
    }
}

pub(crate) fn heading() -> String {
    format!(
        "{:<27} {:<6} {:>10} {:>6} {:>7} {:>6} {:>11} {:>11} {:>11}",
        "attack", "phase", "RSS", "conns", "calls", "failed", "p50", "p99", "max"
    )
}

/// The three phases of an attack.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) before: Phase,
    pub(crate) during: Phase,
    pub(crate) after: Phase,
    pub(crate) released: bool,
    pub(crate) breach: Option<String>,
    pub(crate) attempts: u64,
    pub(crate) first_error: Option<String>,
}

impl Outcome {
    /// Returns the broken rules. Without `unloaded`, latency does not count.
    pub(crate) fn broken(&self, unloaded: Option<Duration>) -> Vec<String> {
        let mut broken: Vec<String> = self.breach.iter().cloned().collect();
        let phases = [&self.before, &self.during, &self.after];
        let rss = phases.map(|phase| phase.rss).into_iter().max().unwrap_or_default();
        if rss > MAX_RSS {
            broken.push(format!("{} MiB of memory (limit {})", rss >> 20, MAX_RSS >> 20));
        }
        let mut failures = phases.into_iter().flat_map(|phase| &phase.honest.failures);
        if let Some(first) = failures.next() {
            broken.push(format!("{} honest calls failed; the first: {first}", 1 + failures.count()));
        }
        let p99 = self.during.percentile(99);
        if let Some(limit) = unloaded.map(|unloaded| unloaded * SLOWDOWN).filter(|limit| p99 > *limit) {
            broken.push(format!("honest p99 {p99:.2?} (limit {limit:.2?})"));
        }
        if !self.released {
            broken.push("memory is not released 10 s after the attack".to_owned());
        }
        broken
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = [("before", &self.before), ("during", &self.during), ("after", &self.after)];
        for (name, phase) in phases {
            writeln!(f, "{:<27} {name:<6} {phase}", self.name)?;
        }
        let error = self.first_error.iter().map(|error| format!("; the first error: {error}"));
        write!(f, "    {} attempts ended{}", self.attempts, error.collect::<String>())?;
        if let Some((_, transport, procedure)) = self.during.honest.slowest {
            write!(f, "; the slowest honest call: {procedure} over {transport}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(latencies: impl Iterator<Item = u64>) -> Phase {
        let latencies = latencies.map(Duration::from_millis).collect();
        Phase { honest: Record { latencies, ..Record::default() }, ..Phase::default() }
    }

    fn outcome(during: Phase) -> Outcome {
        let (before, after, name) = (Phase::default(), Phase::default(), "test");
        let (released, breach, attempts, first_error) = (true, None, 0, None);
        Outcome { name, before, during, after, released, breach, attempts, first_error }
    }

    #[test]
    fn percentiles_are_latencies_that_occurred() {
        let hundred = phase((1..=100).rev());
        let percentiles = [50, 99, 100].map(|percent| hundred.percentile(percent).as_millis());
        assert_eq!(percentiles, [50, 99, 100]);
        assert_eq!(phase([7].into_iter()).percentile(99).as_millis(), 7);
        assert_eq!(Phase::default().percentile(99), Duration::ZERO);
    }

    #[test]
    fn each_rule_can_be_broken() {
        let unloaded = Some(Duration::from_millis(1));
        assert!(outcome(phase([10].into_iter())).broken(unloaded).is_empty());
        assert!(outcome(phase([11].into_iter())).broken(None).is_empty());
        let mut bad = outcome(Phase { rss: MAX_RSS + 1, ..phase([11].into_iter()) });
        bad.after.honest.failures.push("no reply".to_owned());
        bad.released = false;
        bad.breach = Some("a forged handle is accepted".to_owned());
        assert_eq!(bad.broken(unloaded).len(), 5, "{:?}", bad.broken(unloaded));
    }
}
