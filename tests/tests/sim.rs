//! Random runs of both engines over the fabric, over one connection and over one after the other. `SIM_SEED=n` runs one seed again; `SIM_RUNS=n` runs more of them.

use std::env;

use rpcrdma_tests::sim::{Outcome, Tally, run, run_session};

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Requirement: R023, R025, R029, R036, R045, R083, R190, R193, R200, R202, R203, R262, H74, H76
#[test]
fn every_call_ends_once_and_its_data_is_intact() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:?}", run(seed));
        return;
    }
    let mut sum = Outcome::default();
    for seed in 0..number("SIM_RUNS").unwrap_or(600) {
        let one = std::panic::catch_unwind(|| run(seed));
        sum += one.unwrap_or_else(|_| panic!("seed {seed} (SIM_SEED={seed} runs it again)"));
    }
    println!("{sum:?}");
    assert_eq!(sum.calls, sum.replies + sum.failures + sum.abandoned);
    for (kind, count) in [
        ("replies", sum.replies),
        ("failures", sum.failures),
        ("abandoned calls", sum.abandoned),
        ("Read chunks", sum.with_read_chunks),
        ("Long calls", sum.long_calls),
        ("Write chunks", sum.with_write_chunks),
        ("Long replies", sum.long_replies),
        ("remote invalidations", sum.remote_invalidations),
    ] {
        assert!(count > 50, "the runs hardly had {kind}: {count}");
    }
}

/// Requirement: R030, R036, R045, R200, R202, R293, H74, H76
#[test]
fn every_call_of_a_session_ends_once_whatever_becomes_of_its_connections() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:?}", run_session(seed));
        return;
    }
    let mut sum = Tally::default();
    for seed in 0..number("SIM_RUNS").unwrap_or(600) {
        let one = std::panic::catch_unwind(|| run_session(seed));
        sum += one.unwrap_or_else(|_| panic!("seed {seed} (SIM_SEED={seed} runs it again)"));
    }
    println!("{sum:?}");
    assert_eq!(sum.calls, sum.replies + sum.timeouts + sum.failures + sum.abandoned);
    for (kind, count) in [
        ("replies", sum.replies),
        ("timeouts", sum.timeouts),
        ("failures", sum.failures),
        ("abandoned calls", sum.abandoned),
        ("connections", sum.connections.saturating_sub(600)),
        ("refused attempts", sum.refused),
        ("connections that nobody used", sum.idle),
        ("calls that came again", sum.repeated),
        ("calls that the server knew", sum.remembered),
    ] {
        assert!(count > 50, "the runs hardly had {kind}: {count}");
    }
}

#[test]
fn a_seed_runs_the_same_again() {
    for seed in [3, 77] {
        assert_eq!(run(seed), run(seed));
        assert_eq!(run_session(seed), run_session(seed));
    }
}
