use std::net::SocketAddr;

use tracing::{debug, trace};

use crate::proto::rdma::{BackwardResponder, CallKey, Config, IncomingCall, ResponderEvent};
use crate::proto::rpc::Services;
use crate::proto::work::Completion;
use crate::provider::Connection;
use crate::shell::running::Running;
use crate::shell::serving::Serving;
use crate::wire::private_data::Negotiated;
use crate::xdr::Message;

/// What a client's task does with calls of its server, on one connection.
pub(in crate::shell) struct Callee {
    engine: BackwardResponder,
    running: Running<CallKey>,
}

impl Callee {
    /// For a new connection; none, if there are no services.
    pub(in crate::shell) fn new(
        services: &Services,
        config: Config,
        negotiated: Negotiated,
        server: Option<SocketAddr>,
    ) -> Option<Self> {
        services.programs().next()?;
        Some(Callee {
            engine: BackwardResponder::new(config, negotiated),
            // Nothing is sent again on one connection, and a server makes no other.
            running: Running::new(Serving::plain(services.clone()).caller(server)),
        })
    }

    /// As [`BackwardResponder::take`].
    pub(in crate::shell) fn take(&mut self, completion: Completion) -> Option<Completion> {
        self.engine.take(completion)
    }

    /// Starts the handlers of calls that have come, and does what the engine asks for.
    pub(in crate::shell) fn work(&mut self, connection: &mut impl Connection) {
        while let Some(event) = self.engine.poll_event() {
            if let ResponderEvent::Call(IncomingCall { key, xid, message }) = event {
                debug!(xid, "a call in the backward direction");
                if let Some((key, reply)) = self.running.start(key, message) {
                    self.reply(key, reply);
                }
            }
        }
        while let Some(action) = self.engine.poll_action() {
            trace!(?action, "ask");
            connection.submit(action);
        }
    }

    /// Waits for the next handler that ends, and answers. It may be given up while it waits.
    pub(in crate::shell) async fn answer(&mut self) {
        match self.running.next().await {
            Some((key, reply)) => self.reply(key, reply),
            None => std::future::pending().await,
        }
    }

    fn reply(&mut self, call: CallKey, reply: Option<Message>) {
        match reply {
            Some(reply) => self.engine.reply(call, reply),
            None => self.engine.drop_call(call),
        }
    }
}
