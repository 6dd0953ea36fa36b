//! A peer without an engine. The test case controls its messages.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Action, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::Connection;
use tokio::time::timeout;

/// The XID of the calls in the tables.
pub(crate) const XID: u32 = 0x0102_0304;

const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Raw<C> {
    end: C,
    received: VecDeque<Bytes>,
}

impl<C: Connection> Raw<C> {
    pub(crate) fn new(mut end: C) -> Self {
        end.submit(Action::PostReceives { count: 4 });
        Raw { end, received: VecDeque::new() }
    }

    /// Waits for a completion and returns it. Returns `None` if the connection ends. If the completion is a
    /// message, also queues the message for [`Raw::receive`] and posts another Receive.
    async fn next_completion(&mut self) -> Option<Completion> {
        let waiting = poll_fn(|cx| self.end.poll_completion(cx));
        let completion = timeout(LIMIT, waiting).await.expect("a completion");
        if let Completion::Received { message, .. } = &completion {
            self.received.push_back(message.clone());
            self.end.submit(Action::PostReceives { count: 1 });
        }
        (!matches!(completion, Completion::Closed { .. })).then_some(completion)
    }

    /// Waits for a completion for which `wanted` returns a value, and returns this value. Returns `None` if
    /// the connection ends first.
    async fn until<T>(&mut self, mut wanted: impl FnMut(Completion) -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = wanted(self.next_completion().await?) {
                return Some(found);
            }
        }
    }

    /// Sends a message. Returns false if the connection ends before the Send completes.
    pub(crate) async fn send(&mut self, message: Vec<Bytes>) -> bool {
        self.end.submit(Action::Send { token: Token(0), message, invalidate: None });
        self.until(|done| matches!(done, Completion::Sent { .. }).then_some(())).await.is_some()
    }

    /// Returns the next message, or `None` if the connection ends first.
    pub(crate) async fn receive(&mut self) -> Option<Bytes> {
        while self.received.is_empty() {
            self.next_completion().await?;
        }
        self.received.pop_front()
    }

    pub(crate) async fn register(&mut self, memory: Memory) -> Segment {
        self.end.submit(Action::Register { token: Token(1), memory });
        let registered = self.until(|done| match done {
            Completion::Registered { segment, .. } => Some(segment),
            _ => None,
        });
        registered.await.expect("a handle")
    }

    /// Invalidates the handle of a sink and returns the contents of the sink.
    pub(crate) async fn written(&mut self, handle: u32) -> Bytes {
        self.end.submit(Action::Invalidate { token: Token(2), handle });
        let fenced = self.until(|done| match done {
            Completion::Invalidated { memory: Memory::Sink(memory), .. } => Some(memory.freeze()),
            _ => None,
        });
        fenced.await.expect("the fenced memory")
    }

    /// Writes data to the peer's sink. The data arrives before any message that is sent later.
    pub(crate) async fn write(&mut self, sink: Segment, data: Bytes) {
        self.end.submit(Action::Write { token: Token(3), sink, data });
    }
}

pub(crate) fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
