use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::task::{self, JoinSet, consume_budget};
use tracing::{Instrument, debug_span, warn};

use super::serving::Connected;
use crate::proto::rpc::Services;
use crate::xdr::{Message, Received};

/// Calls whose handlers run. What has its reply at once needs no task, and no other thread wakes up for it; each of the others is
/// a task. `K` names a call to its connection.
pub(super) struct Running<K> {
    answered: VecDeque<(K, Option<Message>)>,
    tasks: JoinSet<Option<Message>>,
    calls: HashMap<task::Id, (K, u32)>,
}

impl<K> Default for Running<K> {
    fn default() -> Self {
        Running { answered: VecDeque::new(), tasks: JoinSet::new(), calls: HashMap::new() }
    }
}

impl<K> Running<K> {
    pub(super) fn start(&mut self, key: K, xid: u32, message: Received, caller: Connected) {
        let span = debug_span!("call", xid);
        let mut answer = Box::pin(caller.answer(message).instrument(span));
        match asked_once(answer.as_mut()) {
            Ok(Poll::Ready(reply)) => self.answered.push_back((key, reply)),
            Ok(Poll::Pending) => {
                let task = self.tasks.spawn(answer);
                self.calls.insert(task.id(), (key, xid));
            }
            Err(_) => self.answered.push_back((key, panicked(&"it panicked at once", xid))),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.answered.is_empty() && self.tasks.is_empty()
    }

    /// The next call that has its reply.
    pub(super) async fn next(&mut self) -> Option<(K, Option<Message>)> {
        if !self.answered.is_empty() {
            // However many there are, others have their turn.
            consume_budget().await;
            return self.answered.pop_front();
        }
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let (key, xid) = self.calls.remove(&id)?;
        let reply = ended.map_or_else(|error| panicked(&error, xid), |(_, reply)| reply);
        Some((key, reply))
    }
}

/// Asks what may have its end at once. Nobody wakes it here: the task that it becomes otherwise begins by asking it again.
pub(super) fn asked_once<F: Future>(future: Pin<&mut F>) -> thread::Result<Poll<F::Output>> {
    let mut context = Context::from_waker(Waker::noop());
    catch_unwind(AssertUnwindSafe(|| future.poll(&mut context)))
}

/// A handler that panicked answers SYSTEM_ERR; its connection and the others go on.
fn panicked(error: &dyn Display, xid: u32) -> Option<Message> {
    warn!(%error, xid, "a handler panicked");
    Services::system_error(xid)
}
