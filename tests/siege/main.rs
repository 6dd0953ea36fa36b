//! `siege`: attacks a real `nfs3d` while an honest client uses it.
//!
//! Each attack is an entry in a table in `attacks.rs` and runs a function in `attacks/`. SECURITY.md lists
//! the tests of other attacks.

#![allow(clippy::print_stdout, reason = "the output of a program")]

mod attacks;
mod daemon;
mod honest;
mod peer;
mod prefix;
mod report;

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{Instant, sleep};

use self::attacks::{ATTACKS, Attack, PRIVILEGED_ATTACKS, Privileged, Target};
use self::daemon::Daemon;
use self::honest::Honest;
use self::report::{Outcome, Phase, Sample, heading, unreleased};

/// Attacks nfs3d while an honest client uses it. Fails if the server uses more than 256 MiB of resident
/// memory, or counts more than 56 MiB toward its memory budget. Also fails if the server does not release
/// memory or connections, or accepts a forbidden call. Also fails if an attack is ineffective, if an honest
/// call fails, or if the p99 latency of honest calls is more than ten times as long as without attacks.
#[derive(Parser)]
struct Arguments {
    /// Run each attack for at least 2 s and until it reaches its goal, and do not check the latency of honest
    /// calls (for busy machines)
    #[arg(long)]
    short: bool,
    /// Run only the attacks whose names contain one of these words
    words: Vec<String>,
}

/// The minimum durations of the phases.
struct Times {
    before: Duration,
    during: Duration,
    after: Duration,
}

const SHORT: Times = Times {
    before: Duration::from_millis(200),
    during: Duration::from_secs(2),
    after: Duration::from_millis(200),
};
const FULL: Times =
    Times { before: Duration::from_secs(3), during: Duration::from_secs(20), after: Duration::from_secs(3) };

/// The time limit for the server to release memory and connections after an attack.
const RELEASE: Duration = Duration::from_secs(10);
/// The maximum extra time for an attack to reach its goal on a slow machine.
const MORE_TIME: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let times = if arguments.short { &SHORT } else { &FULL };
    println!("{}", heading());
    let unloaded = Siege::start(times, Ipv4Addr::LOCALHOST.into()).await?.watch(times.during / 2).await?;
    println!("{:<27} {:<6} {unloaded}", "(none)", "");
    let p99 = (!arguments.short).then(|| unloaded.percentile(99));
    let is_chosen = |attack: &&Attack| {
        arguments.words.is_empty() || arguments.words.iter().any(|word| attack.name.contains(word))
    };
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for attack in ATTACKS.iter().filter(is_chosen) {
        failed.extend(run(attack, Ipv4Addr::LOCALHOST.into(), times, p99).await?);
    }
    for Privileged { attack, server, prepare } in PRIVILEGED_ATTACKS {
        if !is_chosen(&attack) {
            continue;
        }
        match prepare() {
            Ok(_prefix) => failed.extend(run(attack, *server, times, p99).await?),
            Err(why) => {
                println!("{:<27} not run: {why:#}", attack.name);
                not_run::record(&format!("siege: {}", attack.name), format_args!("{why:#}"));
                skipped.push(attack.name);
            }
        }
    }
    if !skipped.is_empty() && !arguments.short {
        // A record with the name of the job. Without it, the ledger would list the job as passed.
        not_run::record("siege", format_args!("skipped attacks: {}", skipped.join("; ")));
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Runs an attack on a new server, so that no attack affects the outcomes of later attacks. Returns the
/// attack's name if a rule is broken.
async fn run(
    attack: &Attack,
    server: IpAddr,
    times: &'static Times,
    unloaded: Option<Duration>,
) -> anyhow::Result<Option<&'static str>> {
    let outcome = Siege::start(times, server).await?.run(attack).await?;
    println!("{outcome}");
    let broken = outcome.broken(unloaded);
    for rule in &broken {
        println!("    FAILED: {rule}");
    }
    Ok((!broken.is_empty()).then_some(attack.name))
}

struct Siege {
    daemon: Daemon,
    honest: Honest,
    target: Target,
    times: &'static Times,
}

impl Siege {
    async fn start(times: &'static Times, server: IpAddr) -> anyhow::Result<Self> {
        let daemon = Daemon::start(server)?;
        let target = Target::find(&daemon).await?;
        let honest = Honest::start(daemon.rdma, daemon.tcp)?;
        Ok(Siege { daemon, honest, target, times })
    }

    async fn run(&self, attack: &Attack) -> anyhow::Result<Outcome> {
        let before = self.watch(self.times.before).await?;
        let target = self.target.with_new_effort();
        let effort = target.effort().clone();
        let during = tokio::select! {
            never = (attack.run)(target) => match never {},
            during = self.watch_until(self.times.during, |during| {
                attack.goal.missed(&before, during, effort.completed.load(Ordering::Relaxed)).is_none()
            }) => during?,
        };
        let ended = Instant::now();
        let mut after = self.watch(self.times.after).await?;
        while !unreleased(&before, &during, &after).is_empty() && ended.elapsed() < RELEASE {
            let failures = after.honest.failures;
            after = self.watch(self.times.after).await?;
            after.honest.failures.splice(0..0, failures);
        }
        let text = |text: &Mutex<Option<String>>| text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Outcome {
            name: attack.name,
            before,
            during,
            after,
            goal: attack.goal,
            breach: text(&effort.breach),
            attempts: effort.attempts.load(Ordering::Relaxed),
            completed: effort.completed.load(Ordering::Relaxed),
            first_error: text(&effort.first_error),
        })
    }

    async fn watch(&self, time: Duration) -> anyhow::Result<Phase> {
        self.watch_until(time, |_| true).await
    }

    /// Samples the server for `time`, and then for up to [`MORE_TIME`] longer until `is_done` returns true.
    async fn watch_until(&self, time: Duration, is_done: impl Fn(&Phase) -> bool) -> anyhow::Result<Phase> {
        self.daemon.reset_peak_rss()?;
        let (started, mut phase) = (Instant::now(), Phase::default());
        while started.elapsed() < time || !is_done(&phase) && started.elapsed() < time + MORE_TIME {
            let ((rss, peak_rss), connections) = (self.daemon.rss_and_peak()?, self.daemon.connections()?);
            phase.add(Sample { rss, peak_rss, connections, metrics: self.daemon.metrics().await? });
            sleep(INTERVAL).await;
        }
        phase.honest = self.honest.take();
        Ok(phase)
    }
}
