//! Random runs of requesters and responders over the simulated fabric: over one connection, over successive
//! connections, and in both directions. `SIM_SEED=n` runs only seed n, and `SIM_RUNS=n` runs n seeds instead
//! of 300. `cargo run --release -p rpcrdma-sim` runs 10,000 seeds.

use std::env;

use rpcrdma_sim::{many, run, run_bidirectional, run_session};

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Requirement: R023, R025, R029, R030, R033, R034, R035, R036, R045, R083, R190, R193, R200, R202, R203
/// Requirement: R210, R214, R215, R218, R262, R293, H74, H76
#[test]
fn every_call_ends_once_with_intact_data_despite_lost_connections() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:?}\n{:?}\n{:?}", run(seed), run_session(seed), run_bidirectional(seed));
        return;
    }
    let sums = many(0..number("SIM_RUNS").unwrap_or(300));
    println!("{sums:#?}");
    sums.check();
}

#[test]
fn a_seed_is_reproducible() {
    for seed in [3, 77] {
        assert_eq!(run(seed), run(seed));
        assert_eq!(run_session(seed), run_session(seed));
        assert_eq!(run_bidirectional(seed), run_bidirectional(seed));
    }
}
