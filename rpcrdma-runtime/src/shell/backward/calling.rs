use std::net::SocketAddr;

use tokio::sync::mpsc;
use tracing::trace;

use super::BackwardClient;
use crate::proto::rdma::{BackwardRequester, CallId, Event, Stated};
use crate::proto::work::Completion;
use crate::provider::Connection;
use crate::shell::calls::{Command, Waiting};
use crate::xdr::Message;

/// The client's upper layer has said that it takes calls.
#[derive(Debug)]
pub(in crate::shell) struct Ready;

/// What the task of a connection hears from those who call its client.
pub(super) type Commands = mpsc::UnboundedReceiver<Command<Ready>>;

/// What makes the calls of a server on one connection.
pub(in crate::shell) trait Backward {
    /// Calls may be made from now on.
    fn ready(&mut self);

    /// Makes a call, now or when it can be. [`Event::Done`] follows, unless it is cancelled.
    fn submit(&mut self, message: Message) -> CallId;

    /// Nobody waits for the call any more.
    fn cancel(&mut self, call: CallId);

    /// The next thing to know.
    fn poll_event(&mut self) -> Option<Event>;
}

/// The task's side of a [`BackwardClient`].
pub(in crate::shell) struct Calling<B> {
    /// What makes the calls.
    pub(in crate::shell) engine: B,
    commands: Commands,
    waiting: Waiting<CallId>,
}

impl<B: Backward> Calling<B> {
    /// For a new connection, whose callers may have so many calls that have not ended; and what its handlers are given.
    pub(in crate::shell) fn new(
        engine: B,
        peer: Option<SocketAddr>,
        pending: usize,
    ) -> (BackwardClient, Self) {
        let (client, commands) = BackwardClient::new(peer, pending);
        (client, Calling { engine, commands, waiting: Waiting::default() })
    }

    /// Tells callers how their calls ended.
    pub(in crate::shell) fn settle(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            let Event::Done { call, outcome } = event else { continue };
            self.waiting.end(call, outcome);
        }
    }

    /// Waits for what the next caller asks, and does it. It may be given up while it waits.
    pub(in crate::shell) async fn ask(&mut self) {
        match self.commands.recv().await {
            Some(Command::Other(Ready)) => self.engine.ready(),
            Some(Command::Call { key, call, done }) => {
                let call = self.engine.submit(call.message);
                self.waiting.begin(key, call, done);
            }
            Some(Command::Cancel { key }) => {
                if let Some(call) = self.waiting.forget(key) {
                    self.engine.cancel(call);
                }
            }
            // The connection is its client's: who calls on it does not close it.
            Some(Command::Drain | Command::Close) => {}
            None => std::future::pending().await,
        }
    }
}

impl Calling<BackwardRequester> {
    /// Does what the engine asks for, and tells callers how their calls ended.
    pub(in crate::shell) fn work(&mut self, connection: &mut impl Connection) {
        while let Some(action) = self.engine.poll_action() {
            trace!(?action, "ask");
            connection.submit(action);
        }
        self.settle();
    }

    /// As [`BackwardRequester::take`].
    pub(in crate::shell) fn take(&mut self, completion: Completion) -> Option<Completion> {
        self.engine.take(completion)
    }

    /// As [`BackwardRequester::limit`].
    pub(in crate::shell) fn limit(&mut self, client: Stated) {
        self.engine.limit(client);
    }
}

impl Backward for BackwardRequester {
    fn ready(&mut self) {
        BackwardRequester::ready(self);
    }

    fn submit(&mut self, message: Message) -> CallId {
        BackwardRequester::submit(self, message)
    }

    fn cancel(&mut self, call: CallId) {
        BackwardRequester::cancel(self, call);
    }

    fn poll_event(&mut self) -> Option<Event> {
        BackwardRequester::poll_event(self)
    }
}
