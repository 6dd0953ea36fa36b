//! The table of phases, and the rules that the outcome of each attack must satisfy.

use std::fmt;
use std::time::Duration;

use crate::attacks::Goal;
use crate::daemon::Metrics;
use crate::honest::Record;

/// The maximum resident memory of the server, in bytes.
const MAX_RSS: u64 = 256 << 20;
/// The maximum growth of the server's resident memory over an attack that uses no memory of the budget, in
/// bytes. The duplicate-request cache can grow by about 35 MiB.
const KEPT_RSS: u64 = 48 << 20;
/// The maximum additional growth, in bytes. glibc keeps freed buffers (docs/decisions.md), so growth by 5/3
/// of the used budget is allowed, up to this limit. With `GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072`,
/// memory grows by only about 5 MiB. However, the server would then also use less memory during the attack.
const KEPT_BUFFERS: u64 = 80 << 20;
/// The maximum number of bytes that count toward the memory budget. This limit covers the budget, the
/// guaranteed shares of many hosts, and a small call for each connection.
const MAX_MEMORY: u64 = 56 << 20;
/// The maximum number of bytes that count toward the memory budget after an attack, when only the honest
/// client makes calls.
const KEPT_MEMORY: u64 = 4 << 20;
/// The maximum factor by which an attack may increase the p99 latency of honest calls.
const SLOWDOWN: u32 = 10;

/// The observations of one phase: before, during or after an attack.
#[derive(Default)]
pub(crate) struct Phase {
    /// The peak of the resident memory, in bytes.
    pub(crate) rss: u64,
    pub(crate) connections: usize,
    /// The highest observed number of bytes that count toward the memory budget.
    pub(crate) memory: u64,
    pub(crate) last: Sample,
    pub(crate) honest: Record,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) rss: u64,
    /// The peak of the resident memory since the phase began.
    pub(crate) peak_rss: u64,
    pub(crate) connections: usize,
    pub(crate) metrics: Metrics,
}

impl Phase {
    pub(crate) fn add(&mut self, sample: Sample) {
        self.rss = self.rss.max(sample.peak_rss);
        self.connections = self.connections.max(sample.connections);
        self.memory = self.memory.max(sample.metrics.memory);
        self.last = sample;
    }

    /// Returns the latency that `percent` percent of the calls do not exceed, or zero if there are no calls.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.honest.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rss, memory] = [self.rss, self.memory].map(|bytes| bytes.div_ceil(1 << 20));
        write!(f, "{rss:>6} MiB {memory:>6} MiB {:>6}", self.connections)?;
        write!(f, " {:>7}", self.honest.latencies.len())?;
        write!(f, " {:>6}", self.honest.failures.len())?;
        for percent in [50, 99, 100] {
            write!(f, " {:>8.2} ms", self.percentile(percent).as_secs_f64() * 1e3)?;
        }
        Ok(())
    }
}

pub(crate) fn heading() -> String {
    format!(
        "{:<27} {:<6} {:>10} {:>10} {:>6} {:>7} {:>6} {:>11} {:>11} {:>11}",
        "attack", "phase", "RSS", "budget", "conns", "calls", "failed", "p50", "p99", "max"
    )
}

impl Goal {
    pub(crate) fn missed(self, before: &Phase, during: &Phase, completed: u64) -> Option<String> {
        let (reached, goal, what) = match self {
            Goal::MemoryAndCompleted(mib, count) => {
                let missed = |goal: Goal| goal.missed(before, during, completed);
                return missed(Goal::Memory(mib)).or_else(|| missed(Goal::Completed(count)));
            }
            Goal::Memory(mib) => (during.memory >> 20, mib, "MiB counted toward the memory budget"),
            Goal::Connections(count) => (during.connections as u64, count as u64, "connections"),
            Goal::Arrivals(count) => {
                let before = before.last.metrics.arrivals;
                (during.last.metrics.arrivals.saturating_sub(before), count, "arrivals")
            }
            Goal::Completed(count) => (completed, count, "completed attempts"),
        };
        (reached < goal)
            .then(|| format!("the attack is ineffective: {reached} {what} (expected at least {goal})"))
    }
}

pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) before: Phase,
    pub(crate) during: Phase,
    pub(crate) after: Phase,
    pub(crate) goal: Goal,
    pub(crate) breach: Option<String>,
    pub(crate) attempts: u64,
    pub(crate) completed: u64,
    pub(crate) first_error: Option<String>,
}

impl Outcome {
    /// Returns a message for each broken rule. `unloaded` is the p99 latency without an attack. If it is
    /// `None`, latency is not checked.
    pub(crate) fn broken(&self, unloaded: Option<Duration>) -> Vec<String> {
        let mut broken: Vec<String> = self.breach.iter().cloned().collect();
        let phases = [&self.before, &self.during, &self.after];
        let rss = phases.map(|phase| phase.rss).into_iter().max().unwrap_or_default();
        if rss > MAX_RSS {
            broken.push(format!("{} MiB of resident memory (limit {})", rss >> 20, MAX_RSS >> 20));
        }
        let memory = phases.map(|phase| phase.memory).into_iter().max().unwrap_or_default();
        if memory > MAX_MEMORY {
            broken.push(format!(
                "{} MiB counted toward the memory budget (limit {})",
                memory >> 20,
                MAX_MEMORY >> 20
            ));
        }
        let mut failures = phases.into_iter().flat_map(|phase| &phase.honest.failures);
        if let Some(first) = failures.next() {
            broken.push(format!("{} honest calls failed; the first: {first}", 1 + failures.count()));
        }
        let p99 = self.during.percentile(99);
        if let Some(limit) = unloaded.map(|unloaded| unloaded * SLOWDOWN).filter(|limit| p99 > *limit) {
            broken.push(format!("p99 latency of honest calls: {p99:.2?} (limit {limit:.2?})"));
        }
        broken.extend(unreleased(&self.before, &self.during, &self.after));
        broken.extend(self.goal.missed(&self.before, &self.during, self.completed));
        broken
    }
}

pub(crate) fn unreleased(before: &Phase, during: &Phase, after: &Phase) -> Vec<String> {
    let Sample { rss, connections, metrics, .. } = after.last;
    let buffers = (during.memory * 5 / 3).min(KEPT_BUFFERS);
    let (mut kept, limit) = (Vec::new(), before.last.rss + KEPT_RSS + buffers);
    if rss > limit {
        kept.push(format!("{} MiB stay resident (limit {})", rss >> 20, limit >> 20));
    }
    if metrics.memory > KEPT_MEMORY {
        let memory = metrics.memory >> 10;
        kept.push(format!("{memory} KiB of the budget stay in use (limit {})", KEPT_MEMORY >> 10));
    }
    if connections > before.connections {
        kept.push(format!("{connections} connections stay open (limit {})", before.connections));
    }
    kept
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = [("before", &self.before), ("during", &self.during), ("after", &self.after)];
        for (name, phase) in phases {
            writeln!(f, "{:<27} {name:<6} {phase}", self.name)?;
        }
        let error = self.first_error.iter().map(|error| format!("; the first error: {error}"));
        let [before, after] = [&self.before, &self.after].map(|phase| phase.last.rss);
        let kept = after.saturating_sub(before).div_ceil(1 << 20);
        write!(f, "    resident memory grew by {kept} MiB; ")?;
        write!(f, "{} attempts ended{}", self.attempts, error.collect::<String>())?;
        if let Some((_, transport, procedure)) = self.during.honest.slowest {
            write!(f, "; the slowest honest call: {procedure} over {transport}")?;
        }
        if let Some(slowest) = self.during.honest.new_connections.iter().max() {
            write!(f, "; slowest new connection: {:.1} ms", slowest.as_secs_f64() * 1e3)?;
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
        let (goal, breach, first_error) = (Goal::Completed(1), None, None);
        let (attempts, completed) = (1, 1);
        Outcome { name, before, during, after, goal, breach, attempts, completed, first_error }
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
        let (rss, memory) = (MAX_RSS + 1, MAX_MEMORY + 1);
        let mut bad = outcome(Phase { rss, memory, ..phase([11].into_iter()) });
        bad.after.honest.failures.push("no reply".to_owned());
        let metrics = Metrics { memory: KEPT_MEMORY + 1, arrivals: 0 };
        bad.after.last = Sample { rss: KEPT_RSS + KEPT_BUFFERS + 1, peak_rss: 0, connections: 1, metrics };
        bad.completed = 0;
        bad.breach = Some("a forged handle is accepted".to_owned());
        assert_eq!(bad.broken(unloaded).len(), 9, "{:?}", bad.broken(unloaded));
    }

    #[test]
    fn each_goal_can_be_missed() {
        let metrics = Metrics { memory: 0, arrivals: 9 };
        let last = Sample { metrics, ..Sample::default() };
        let goals = [
            Goal::Memory(4),
            Goal::Connections(5),
            Goal::Arrivals(9),
            Goal::Completed(1),
            Goal::MemoryAndCompleted(4, 1),
        ];
        for goal in goals {
            let during = Phase { memory: 4 << 20, connections: 5, last, ..Phase::default() };
            let before = Phase::default();
            assert_eq!(goal.missed(&before, &during, 1), None);
            let missed = goal.missed(&before, &Phase::default(), 0);
            assert!(missed.is_some_and(|text| text.contains("is ineffective")), "{goal:?}");
        }
    }
}
