//! Tables of cases for every provider: calls (`tests/scenarios.toml`), calls with handcrafted chunks,
//! malformed headers, and replies that do not match their calls.
//!
//! To add a provider, implement [`Provider`](link::Provider) and add a line to each test.

mod calls;
mod headers;
mod layouts;
mod link;
#[cfg(feature = "verbs")]
mod over_verbs;
mod raw;
mod replies;

use link::{Iwarp, Marked, Memory};

/// Requirement: R042, R202
#[tokio::test]
async fn each_scenario_is_the_same_over_each_provider() {
    let all = calls::scenarios();
    let mut failed = Vec::new();
    for scenario in &all {
        let memory = calls::over::<Memory>(scenario).await;
        for (provider, other) in [
            ("iwarp", calls::over::<Iwarp>(scenario).await),
            ("iwarp with markers", calls::over::<Marked>(scenario).await),
        ] {
            match (&memory, other) {
                (Ok(memory), Ok(other)) if *memory == other => {}
                (Ok(_), Ok(_)) if scenario.varies() => {}
                (memory, other) => {
                    failed.push(format!("{}:\n  fabric {memory:?}\n  {provider} {other:?}", scenario.name))
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Requirement: R072, R130, R131, R143, R153, R144, R160, R161, R162, R165, R166, R167, R168, R171, R172
/// Requirement: R156, R173, R182, R184, R191, R194, H13, H14, H15, H16, H17, H18, H19, H20, H21, H22, H23
/// Requirement: H24, H25, H26, H29, H34, H35
#[tokio::test]
async fn every_invalid_header_gets_its_error() {
    headers::over::<Memory>().await;
    headers::over::<Iwarp>().await;
    headers::over::<Marked>().await;
}

/// Requirement: R045, R070, R073, R076, R077, R083, R091, R092, R093, R097, R099, R100, R102, R106, R109
/// Requirement: R111, R121, R122, R123, R125, R128, R129, R131, R133, R144, R177, H24, H33, H71
#[tokio::test]
async fn every_layout_of_a_call_has_its_result_or_its_error() {
    layouts::over::<Memory>().await;
    layouts::over::<Iwarp>().await;
    layouts::over::<Marked>().await;
}

/// Requirement: R187, R188, R220
/// Requirement: R144, R163, R164, R170, R192, R194, R210, H13, H14, H16, H18, H30, H31, H32, H36, H37
#[tokio::test]
async fn a_reply_that_does_not_match_its_call_fails_it_or_is_dropped() {
    replies::over::<Memory>().await;
    replies::over::<Iwarp>().await;
    replies::over::<Marked>().await;
}
