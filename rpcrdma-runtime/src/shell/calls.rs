//! Calls on their way between those who make them and the task that owns the connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{Semaphore, mpsc, oneshot};

use super::CallError;
use super::carrier::is_sent_once;
use crate::proto::rdma::session::{Call, Line, Session};
use crate::proto::rdma::{CallId, FailReason, Reply};
use crate::proto::time::Time;
use crate::proto::work::CloseReason;

/// How a call ended.
pub(super) type Outcome = Result<Reply, FailReason>;

/// What callers ask of the task of a session. `Other` is what its transport has besides.
#[derive(Debug)]
pub(super) enum Command<Other = Infallible> {
    /// Make a call.
    Call { key: u64, call: Call, done: oneshot::Sender<Outcome> },
    /// Nobody waits for this call any more.
    Cancel { key: u64 },
    /// Take no more calls, and close the connection once those that there are have ended.
    Drain,
    /// End all calls and close the connection.
    Close,
    /// What only this transport knows.
    Other(Other),
}

/// The callers' side of a session.
pub(super) struct Calls<Other = Infallible> {
    commands: mpsc::UnboundedSender<Command<Other>>,
    next_xid: AtomicU32,
    next_key: AtomicU64,
    places: Semaphore,
    most: usize,
}

impl<Other> Calls<Other> {
    /// For at most this many calls at once; and where the task hears of them.
    pub(super) fn new(most: usize) -> (Self, mpsc::UnboundedReceiver<Command<Other>>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (next_xid, next_key) = (AtomicU32::new(first_xid()), AtomicU64::new(0));
        let places = Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        (Calls { commands, next_xid, next_key, places, most }, receiver)
    }

    pub(super) fn next_xid(&self) -> u32 {
        self.next_xid.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the task for something. If it is gone there is no connection to do it to.
    pub(super) fn tell(&self, command: Command<Other>) {
        let _ = self.commands.send(command);
    }

    /// Whether the task is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the task is gone.
    pub(super) async fn closed(&self) {
        self.commands.closed().await;
    }

    /// Makes a call and waits for its end. A caller that leaves before abandons it.
    pub(super) async fn transact(&self, mut call: Call) -> Result<Reply, CallError> {
        if is_sent_once(&call.message) {
            call.retransmit = Some(false);
        }
        let _place = self.places.try_acquire().map_err(|_| CallError::TooMany(self.most))?;
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let (done, outcome) = oneshot::channel();
        let command = Command::Call { key, call, done };
        self.commands.send(command).map_err(|_| CallError::Disconnected)?;
        let mut abandon = Abandon { calls: self, key: Some(key) };
        let outcome = outcome.await;
        abandon.key = None;
        match outcome {
            Ok(Err(FailReason::Timeout(after))) => Err(CallError::Timeout(after)),
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(CallError::Disconnected),
        }
    }
}

/// Tells the task when a caller leaves before its call has ended.
struct Abandon<'a, Other> {
    calls: &'a Calls<Other>,
    key: Option<u64>,
}

impl<Other> Drop for Abandon<'_, Other> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.calls.tell(Command::Cancel { key });
        }
    }
}

/// Callers by their call: the task's side.
pub(super) struct Waiting<Id> {
    calls: HashMap<Id, (u64, oneshot::Sender<Outcome>)>,
    keys: HashMap<u64, Id>,
}

impl<Id> Default for Waiting<Id> {
    fn default() -> Self {
        Waiting { calls: HashMap::new(), keys: HashMap::new() }
    }
}

impl<Id: Copy + Eq + Hash> Waiting<Id> {
    pub(super) fn begin(&mut self, key: u64, call: Id, done: oneshot::Sender<Outcome>) {
        self.keys.insert(key, call);
        self.calls.insert(call, (key, done));
    }

    pub(super) fn forget(&mut self, key: u64) -> Option<Id> {
        let call = self.keys.remove(&key)?;
        self.calls.remove(&call);
        Some(call)
    }

    pub(super) fn end(&mut self, call: Id, outcome: Outcome) {
        if let Some((key, done)) = self.calls.remove(&call) {
            self.keys.remove(&key);
            // A caller that left in this very moment does not hear it.
            let _ = done.send(outcome);
        }
    }
}

impl Waiting<CallId> {
    /// Does what callers ask of a session, and gives back what is its transport's to do.
    pub(super) fn obey<L: Line, Other>(
        &mut self,
        command: Command<Other>,
        session: &mut Session<L>,
        now: Time,
    ) -> Option<Other> {
        match command {
            Command::Call { key, call, done } => {
                let call = session.submit(now, call);
                self.begin(key, call, done);
            }
            Command::Cancel { key } => {
                if let Some(call) = self.forget(key) {
                    session.cancel(now, call);
                }
            }
            Command::Drain => session.close_when_idle(now),
            Command::Close => session.close(now, &CloseReason::Local),
            Command::Other(other) => return Some(other),
        }
        None
    }
}

/// Anything but what the last connection began with.
pub(super) fn first_xid() -> u32 {
    getrandom::u32().unwrap_or_else(|_| std::process::id())
}
