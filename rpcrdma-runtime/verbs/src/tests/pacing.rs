//! The minimum rate that a server requires of its client ([`VerbsOptions::min_rate`]).

use std::time::Duration;

use tokio::time::{Instant, interval_at};

use super::*;

/// The minimum rate, in octets per second.
const RATE: u64 = 500;
/// The number of messages that the server sends at once.
const MESSAGES: u64 = 40;
/// The length of each message, in octets.
const MESSAGE: usize = 1000;

/// Sends [`MESSAGES`] messages to a client that requests one more Receive per `tick`. Returns the number of
/// completed Sends, and the reason if the server closed the connection.
async fn served(tick: Duration) -> (u64, Option<CloseReason>) {
    let options = VerbsOptions { min_rate: RATE, max_sends: 64, ..options() };
    let (mut client, mut server) = connected(&options).await;
    for number in 0..MESSAGES {
        let message = vec![octets(MESSAGE, 1).into()];
        server.submit(Action::Send { token: Token(number), message, invalidate: None });
    }
    let serving = async {
        for completed in 0..MESSAGES {
            match next(&mut server).await {
                Completion::Sent { .. } => {}
                Completion::Closed { reason, .. } => return (completed, Some(reason)),
                other => panic!("expected a sent message: {other:?}"),
            }
        }
        (MESSAGES, None)
    };
    let draining = async {
        let mut ticks = interval_at(Instant::now() + tick, tick);
        loop {
            tokio::select! {
                _ = ticks.tick() => client.submit(Action::PostReceives { count: 1 }),
                received = next(&mut client) => match received {
                    Completion::Received { message, .. } => assert_eq!(message.len(), MESSAGE),
                    Completion::Closed { .. } => return std::future::pending().await,
                    other => panic!("expected a message: {other:?}"),
                },
            }
        }
    };
    tokio::select! {
        ended = serving => ended,
        () = draining => unreachable!("the client never stops"),
    }
}

/// The client accepts 454 octets per second.
#[test]
fn a_client_that_drains_slower_than_the_minimum_rate_is_disconnected() {
    with(Settings::CARD, async |_| {
        let (completed, reason) = served(Duration::from_millis(2200)).await;
        assert_eq!(reason, Some(CloseReason::Timeout("the peer is slower than the minimum rate".into())));
        assert!(completed < MESSAGES, "{completed} messages were sent");
    });
}

/// The client accepts 555 octets per second.
#[test]
fn a_client_that_drains_a_little_faster_than_the_minimum_rate_is_served() {
    with(Settings::CARD, async |_| assert_eq!(served(Duration::from_millis(1800)).await, (MESSAGES, None)));
}
