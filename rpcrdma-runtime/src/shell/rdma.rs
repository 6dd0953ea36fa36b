use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use tracing::{debug, trace};

use super::backward::Calling;
use super::carried::fitted;
use super::inbound::{Event, Inbound};
use super::serving::{Connected, Serving};
use super::stats::ServerStats;
use crate::proto::program::{Extensions, Origin};
use crate::proto::rdma::{
    BackwardRequester, CallKey, Config, IncomingCall, Link, Responder, ResponderEvent, Stated,
};
use crate::proto::work::CloseReason;
use crate::provider::Connection;
use crate::wire::private_data::PrivateData;
use crate::xdr::Message;

/// A connection over RPC-over-RDMA, and the engines of both directions on it.
pub(super) struct RdmaInbound<C> {
    connection: C,
    responder: Responder,
    backward: Calling<BackwardRequester>,
    link: Link,
    peer: Option<SocketAddr>,
    stats: ServerStats,
    /// No more calls are taken.
    draining: bool,
}

impl<C: Connection> RdmaInbound<C> {
    /// A new connection, and its caller.
    pub(super) fn new(connection: C, serving: &Serving, config: Config) -> (Self, Arc<Connected>) {
        let info = connection.info();
        let config = fitted(config, info);
        let (peer, reads_out) = (info.peer, info.reads_out);
        let client = PrivateData::find(&info.private_data).unwrap_or(PrivateData::ABSENT);
        let negotiated = PrivateData::negotiate(&client, &config.private_data);
        debug!(?negotiated, "serving");
        let own = Stated { inline: config.private_data.announced().receive_size, reads: reads_out };
        let link = Link::new(own, negotiated);
        let engine = BackwardRequester::new(config, negotiated);
        let (client, backward) = Calling::new(engine, peer, serving.backward_pending());
        let extensions = Extensions::default().with(link.clone()).with(client);
        let caller = serving.caller(Origin { peer, extensions });
        let mut responder = Responder::new(config, negotiated, reads_out);
        serving.warn(&mut responder, peer);
        let (stats, draining) = (serving.stats().clone(), false);
        (RdmaInbound { connection, responder, backward, link, peer, stats, draining }, caller)
    }

    /// The connection has ended.
    pub(super) fn ended(&mut self, serving: &Serving, reason: &CloseReason) {
        debug!(%reason, "connection closed");
        serving.ended(&mut self.responder, self.peer);
    }
}

impl<C: Connection> Inbound for RdmaInbound<C> {
    type Key = CallKey;

    async fn next(&mut self) -> Event<CallKey> {
        loop {
            match self.responder.poll_event() {
                // A requester whose call is dropped hears that the connection is closed, and may call elsewhere.
                Some(ResponderEvent::Call(call)) if self.draining => self.responder.drop_call(call.key),
                Some(ResponderEvent::Call(IncomingCall { key, message, .. })) => {
                    return Event::Call(key, message);
                }
                Some(ResponderEvent::Closed(reason)) => {
                    self.backward.settle();
                    return Event::Closed(reason);
                }
                None => {}
            }
            if self.draining && self.responder.in_progress() == 0 {
                self.responder.close(CloseReason::Local);
            }
            while let Some(action) = self.responder.poll_action() {
                trace!(?action, "ask");
                self.connection.submit(action);
            }
            self.backward.work(&mut self.connection);
            self.stats.transport(self.responder.take_counts());
            if self.responder.has_work() {
                continue;
            }
            tokio::select! {
                completion = poll_fn(|cx| self.connection.poll_completion(cx)) => {
                    trace!(?completion, "hear");
                    if let Some(completion) = self.backward.take(completion) {
                        self.responder.handle_completion(completion);
                    }
                }
                () = self.backward.ask() => {}
            }
        }
    }

    fn reply(&mut self, call: CallKey, reply: Option<Message>) {
        match reply {
            Some(reply) => self.responder.reply(call, reply),
            None => self.responder.drop_call(call),
        }
        if let Some(client) = self.link.stated() {
            self.responder.limit(client);
            self.backward.limit(client);
        }
    }

    fn drain(&mut self) {
        self.draining = true;
    }
}
