//! Backward calls over RDMA (iWARP) and over TCP, on the loopback interface. Tests for both transports are in
//! `either.rs`.

mod either;
mod rdma;
mod tcp;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rpcrdma_runtime::BackwardClient;
use rpcrdma_runtime::program::{CallContext, Reject};

#[allow(dead_code, unreachable_pub, missing_docs, clippy::all)]
#[rustfmt::skip]
mod notices { include!(concat!(env!("OUT_DIR"), "/notices.rs")); }

use notices::notices_v1::{self, Client as Notices};
use notices::{Noted, Notice, watches_v1};

const LONG: Duration = Duration::from_secs(60);

fn notice(number: u64, len: usize) -> Notice {
    Notice { number, text: vec![7; len].into() }
}

/// The server's handler. `say` notifies all subscribers before it replies to the caller.
#[derive(Clone, Default)]
struct Board {
    watching: Arc<Mutex<Vec<BackwardClient>>>,
    /// The backward client of the last `watch` or `rest` call.
    last: Arc<Mutex<Option<BackwardClient>>>,
}

impl Board {
    fn last(&self) -> BackwardClient {
        self.last.lock().expect("no panic").clone().expect("a client")
    }
}

impl watches_v1::Handler for Board {
    async fn watch(&self, context: &CallContext) -> Result<(), Reject> {
        let backward = context.backward().ok_or(Reject::SystemError)?;
        backward.ready();
        *self.last.lock().expect("no panic") = Some(backward.clone());
        self.watching.lock().expect("no panic").push(backward);
        Ok(())
    }

    async fn say(&self, _context: &CallContext, notice: Notice) -> Result<u32, Reject> {
        let watching = self.watching.lock().expect("no panic").clone();
        let mut replied = 0;
        for client in watching {
            replied += u32::from(
                Notices(client).notify(&notice).await.is_ok_and(|replied| replied.number == notice.number),
            );
        }
        Ok(replied)
    }

    async fn rest(&self, context: &CallContext, milliseconds: u32) -> Result<(), Reject> {
        *self.last.lock().expect("no panic") = context.backward();
        tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
        Ok(())
    }
}

/// The client's handler, which records the received notices.
#[derive(Clone, Default)]
struct Subscriber {
    received: Arc<Mutex<Vec<u64>>>,
    /// The processing time of a notice.
    pause: Duration,
    running: Arc<AtomicUsize>,
    max_running: Arc<AtomicUsize>,
}

impl notices_v1::Handler for Subscriber {
    async fn notify(&self, _context: &CallContext, notice: Notice) -> Result<Noted, Reject> {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.max_running.fetch_max(running, Ordering::Relaxed);
        tokio::time::sleep(self.pause).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.received.lock().expect("no panic").push(notice.number);
        assert_ne!(notice.number, PANIC, "the notice requests a panic");
        let len = if notice.text.as_bytes().starts_with(b"A") { 5000 } else { 0 };
        Ok(Noted { number: notice.number, answer: vec![8; len].into() })
    }
}

const PANIC: u64 = 0xdead;
