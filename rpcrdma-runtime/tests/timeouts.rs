//! Timeouts of calls that share an iWARP connection with other calls, over real TCP loopback connections.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::pin::Pin;
use std::time::Duration;

use rpcrdma_runtime::CallError;
use rpcrdma_runtime::program::{CallContext, Caller, Reject, Service};
use rpcrdma_runtime::xdr::{Reader, Reducer};
use rpcrdma_runtime::{Client, Server};

use echo::{EchoBlob, EchoServer, EchoSleep, blob};

const SHORT: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_millis(400);

/// Delays the replies to all calls except [`EchoSleep`].
struct Late;

impl Service for Late {
    fn program(&self) -> u32 {
        EchoServer.program()
    }

    fn version(&self) -> u32 {
        EchoServer.version()
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            if context.procedure != 3 {
                tokio::time::sleep(SLOW).await;
            }
            EchoServer.dispatch(context, args, reply).await
        })
    }
}

/// Returns a client that has received its credit grant.
async fn client() -> Client {
    let server = Server::bind("127.0.0.1:0").await.unwrap().service(Late);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(address).await.unwrap();
    assert_eq!(client.call::<EchoSleep>(&0).await.unwrap(), 0);
    client
}

fn assert_timed_out<T: std::fmt::Debug>(outcome: Result<T, CallError>) {
    let Err(CallError::Timeout(after)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(after, SHORT);
}

#[tokio::test]
async fn a_timeout_does_not_affect_other_calls() {
    let client = client().await;
    let slow = || {
        let client = client.clone();
        tokio::spawn(async move { client.call::<EchoSleep>(&400).await })
    };
    let mut others: Vec<_> = (0..7).map(|_| slow()).collect();
    let once = client.without_retransmission();
    others.push(tokio::spawn(async move { once.call::<EchoSleep>(&400).await }));
    assert_timed_out(client.with_timeout(SHORT).call::<EchoSleep>(&300).await);
    for other in others {
        assert_eq!(other.await.unwrap().unwrap(), 400);
    }
    let counted = client.stats().session;
    assert_eq!((counted.connections, counted.retransmissions, counted.timeouts), (1, 0, 1));
}

#[tokio::test]
async fn late_replies_to_calls_with_chunks_do_not_close_the_connection() {
    let client = client().await;
    let impatient = client.with_timeout(SHORT);
    // Both the call and the reply use chunks.
    let large = blob(3, 300_000);
    for _ in 0..3 {
        assert_timed_out(impatient.call::<EchoBlob>(&large).await);
    }
    assert_eq!(client.call::<EchoBlob>(&large).await.unwrap(), large);
    assert_eq!(client.call::<EchoSleep>(&1).await.unwrap(), 1);
    let counted = client.stats().session;
    assert_eq!((counted.connections, counted.retransmissions, counted.timeouts), (1, 0, 3));
}

#[tokio::test]
async fn late_replies_return_credits() {
    let client = client().await;
    let impatient = client.with_timeout(SHORT);
    let granted = client.stats().credits;
    for _ in 0..2 {
        let calls: Vec<_> = (1..granted)
            .map(|_| {
                let impatient = impatient.clone();
                tokio::spawn(async move { impatient.call::<EchoSleep>(&100).await })
            })
            .collect();
        for call in calls {
            assert_timed_out(call.await.unwrap());
        }
        assert_eq!(client.call::<EchoSleep>(&100).await.unwrap(), 100);
    }
    assert_eq!(client.stats().session.connections, 1);
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let client = client().await;
    let granted = client.stats().credits;
    let impatient = client.with_timeout(SHORT);
    let calls: Vec<_> = (0..granted)
        .map(|_| {
            let impatient = impatient.clone();
            tokio::spawn(async move { impatient.call::<EchoSleep>(&60_000).await })
        })
        .collect();
    for call in calls {
        assert_timed_out(call.await.unwrap());
    }
    assert_eq!(client.call::<EchoSleep>(&1).await.unwrap(), 1, "on another connection");
    assert_eq!(client.stats().session.connections, 2);
}
