//! The task that owns a client's connection.

use std::collections::HashMap;
use std::future::poll_fn;

use tokio::sync::{mpsc, oneshot};
use tracing::{debug, trace};

use crate::proto::rdma::{Call, CallId, Event, FailReason, Reply, Requester, Stated};
use crate::proto::work::CloseReason;
use crate::provider::Connection;

/// What callers ask of the task.
#[derive(Debug)]
pub(super) enum Command {
    /// Make a call.
    Call { key: u64, call: Call, done: oneshot::Sender<Outcome> },
    /// Nobody waits for this call any more.
    Cancel { key: u64 },
    /// This call has taken too long.
    Expire { key: u64 },
    /// Keep calls to what the server says of itself.
    Limit(Stated),
    /// Close the connection.
    Close,
}

pub(super) type Outcome = Result<Reply, FailReason>;

/// Runs until the connection is closed; it closes it when every [`super::Client`] of it is gone.
pub(super) async fn drive(
    mut connection: impl Connection,
    mut requester: Requester,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut waiting = Waiting::default();
    let mut clients = true;
    loop {
        while let Some(action) = requester.poll_action() {
            trace!(?action, "ask");
            connection.submit(action);
        }
        while let Some(event) = requester.poll_event() {
            match event {
                Event::Done { call, outcome } => waiting.end(call, outcome),
                Event::Closed(reason) => {
                    debug!(%reason, "connection closed");
                    return;
                }
            }
        }
        if requester.has_work() {
            continue;
        }
        tokio::select! {
            completion = poll_fn(|cx| connection.poll_completion(cx)) => {
                trace!(?completion, "hear");
                requester.handle_completion(completion);
            }
            command = commands.recv(), if clients => match command {
                Some(Command::Call { key, call, done }) => waiting.begin(key, requester.submit(call), done),
                Some(Command::Cancel { key }) => {
                    if let Some(call) = waiting.forget(key) {
                        requester.cancel(call);
                    }
                }
                Some(Command::Expire { key }) => {
                    if let Some(call) = waiting.forget(key) {
                        requester.expire(call);
                    }
                }
                Some(Command::Limit(server)) => requester.limit(server),
                Some(Command::Close) => requester.close(CloseReason::Local),
                None => {
                    clients = false;
                    requester.close(CloseReason::Local);
                }
            },
        }
    }
}

/// Callers by their call.
#[derive(Default)]
struct Waiting {
    calls: HashMap<CallId, (u64, oneshot::Sender<Outcome>)>,
    keys: HashMap<u64, CallId>,
}

impl Waiting {
    fn begin(&mut self, key: u64, call: CallId, done: oneshot::Sender<Outcome>) {
        self.keys.insert(key, call);
        self.calls.insert(call, (key, done));
    }

    fn forget(&mut self, key: u64) -> Option<CallId> {
        let call = self.keys.remove(&key)?;
        self.calls.remove(&call);
        Some(call)
    }

    fn end(&mut self, call: CallId, outcome: Outcome) {
        if let Some((key, done)) = self.calls.remove(&call) {
            self.keys.remove(&key);
            // A caller that left in this very moment does not hear it.
            let _ = done.send(outcome);
        }
    }
}
