//! The part of a client that is independent of its transport.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::driver::{SessionHandle, ended, next_connection};
use super::error::{CallError, CallTarget};
use super::exchange::{decode, encode, target, transact};
use super::message_transport::Sends;
use super::observer::{Observer, observed};
use super::result_memory::{Lease, ResultMemory, ResultMemoryError};
use super::stats::{ClientSnapshot, ClientStats};
use crate::proto::call::{IncomingReply, Traffic};
use crate::proto::program::{Credential, Procedure, ReplyBounds};
use crate::proto::session::SessionCall;
use crate::xdr::{BytesMut, ItemMemory, Message, Received, Reducer};

/// One clone of a client: the session that all clones share, and the settings of this clone's calls.
pub(super) struct ClientHandle<S: SessionHandle + ?Sized> {
    shared: Arc<ClientShared<S>>,
    timeout: Duration,
    retransmit: Option<bool>,
    memory: Option<Arc<ResultMemory>>,
}

/// The state that all clones of a client share. Dropping the last clone closes the connection.
struct ClientShared<S: SessionHandle + ?Sized> {
    session: Arc<S>,
    stats: ClientStats,
    credential: Credential,
    observer: Option<Observer>,
}

impl<S: SessionHandle + ?Sized> Drop for ClientShared<S> {
    fn drop(&mut self) {
        self.session.close();
    }
}

impl<S: SessionHandle + ?Sized> Clone for ClientHandle<S> {
    fn clone(&self) -> Self {
        ClientHandle { shared: self.shared.clone(), memory: self.memory.clone(), ..*self }
    }
}

impl<S: SessionHandle + ?Sized> ClientHandle<S> {
    pub(super) fn new(
        session: Arc<S>,
        stats: ClientStats,
        credential: Credential,
        observer: Option<Observer>,
        timeout: Duration,
    ) -> Self {
        let shared = Arc::new(ClientShared { session, stats, credential, observer });
        ClientHandle { shared, timeout, retransmit: None, memory: None }
    }

    pub(super) fn session(&self) -> &S {
        &self.shared.session
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn with_timeout(&self, timeout: Duration) -> Self {
        ClientHandle { timeout, ..self.clone() }
    }

    pub(super) fn without_retransmission(&self) -> Self {
        ClientHandle { retransmit: Some(false), ..self.clone() }
    }

    pub(super) fn with_result_memory(&self, memory: BytesMut) -> Self {
        ClientHandle { memory: Some(Arc::new(ResultMemory::new(memory))), ..self.clone() }
    }

    pub(super) async fn drain(&self) {
        self.session().drain();
        ended(self.session().watch()).await;
    }

    pub(super) fn connections(&self) -> u64 {
        self.session().watch().borrow().connections
    }

    pub(super) async fn next_connection(&self, seen: u64) -> Option<u64> {
        next_connection(self.session().watch(), seen).await
    }

    pub(super) fn stats(&self) -> ClientSnapshot {
        self.session().count();
        self.shared.stats.snapshot()
    }

    pub(super) async fn call<Q: Procedure>(
        &self,
        args: &Q::Args,
        min_item: usize,
    ) -> Result<Q::Res, CallError> {
        let xid = self.session().next_xid();
        self.observe::<Q, _>(xid, || self.exchange_args::<Q>(xid, args, min_item)).await
    }

    pub(super) async fn observe<Q: Procedure, F>(
        &self,
        xid: u32,
        exchange: impl FnOnce() -> F + Send,
    ) -> Result<Q::Res, CallError>
    where
        F: Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    {
        let ClientShared { session, stats, observer, .. } = &*self.shared;
        observed::<Q, _>(observer.as_ref(), stats, xid, || session.endpoints(), exchange).await
    }

    pub(super) async fn exchange(
        &self,
        target: CallTarget,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        if self.memory.is_some() {
            return Err(ResultMemoryError::NoItem.into());
        }
        let reply = self.transact(target, message, bounds, sends, None).await?;
        Ok((reply.message, reply.traffic))
    }

    async fn exchange_args<Q: Procedure>(
        &self,
        xid: u32,
        args: &Q::Args,
        min_item: usize,
    ) -> Result<(Q::Res, Traffic), CallError> {
        let credential = &self.shared.credential;
        let bounds = Q::reply_bounds(args);
        let lease = self.memory.as_ref().map(|memory| memory.lease(&bounds)).transpose()?;
        // With a credential that protects complete arguments, neither the call nor its reply can be reduced.
        let (bounds, sink) = if credential.allows_reduction() {
            (bounds, Reducer::new(min_item))
        } else {
            (bounds.without_reduction(), Reducer::disabled())
        };
        let message = encode::<Q>(xid, credential, args, sink)?;
        let sends = Sends::of(credential);
        let reply = self.transact(target::<Q>(), message, bounds, sends, lease.as_ref()).await?;
        decode::<Q>(xid, &reply, lease.as_ref())
    }

    async fn transact(
        &self,
        target: CallTarget,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
        lease: Option<&Lease>,
    ) -> Result<IncomingReply, CallError> {
        let retransmit = sends.retransmit(self.retransmit);
        let memory = lease.map(|Lease(memory)| memory.clone() as Arc<dyn ItemMemory>);
        let call = SessionCall { message, bounds, timeout: Some(self.timeout), retransmit, memory };
        let session = self.session();
        let outcome = transact(session, target, Some(bounds.unreduced), call).await;
        outcome.map_err(|error| error.with_peer(|| session.endpoints().peer))
    }
}

/// Defines the methods of a client that are independent of its transport. `$field` lists the fields besides
/// `handle`.
macro_rules! client_methods {
    ($client:ident { $($field:ident),* }) => {
        impl $client {
            /// Returns the timeout of this client's calls.
            #[must_use]
            pub fn timeout(&self) -> std::time::Duration {
                self.handle.timeout()
            }

            /// Returns a client on the same connection whose calls have this timeout. The timeout covers the
            /// whole time until the reply, across reconnections.
            #[must_use]
            pub fn with_timeout(&self, timeout: std::time::Duration) -> Self {
                $client { handle: self.handle.with_timeout(timeout), $($field: self.$field),* }
            }

            /// Returns a client that shares the connection and never retransmits. If the server has no
            /// duplicate-request cache, use this client for calls that must not execute twice. A call that
            /// was sent fails with [`TransportError::Closed`](crate::proto::call::TransportError::Closed)
            /// when its connection ends. If the call is longer than 4 KiB,
            /// [`CallError::TooLong`](crate::CallError::TooLong) may wrap that error. RPCSEC_GSS calls with a
            /// sequence number are never retransmitted.
            #[must_use]
            pub fn without_retransmission(&self) -> Self {
                $client { handle: self.handle.without_retransmission(), $($field: self.$field),* }
            }

            /// Returns the number of connections made so far, including the current connection.
            #[must_use]
            pub fn connections(&self) -> u64 {
                self.handle.connections()
            }

            /// Waits until more than `seen` connections have been made, and returns the number of
            /// connections. Returns `None` if the client is closed or cannot reconnect. A server keeps state
            /// per connection, so a client with backward programs must announce the programs on each
            /// connection.
            pub async fn next_connection(&self, seen: u64) -> Option<u64> {
                self.handle.next_connection(seen).await
            }

            /// Returns the client's counts since it was created, for all clones and connections.
            #[must_use]
            pub fn stats(&self) -> $crate::shell::ClientSnapshot {
                self.handle.stats()
            }

            /// Closes the connection permanently. Outstanding and later calls fail.
            pub fn close(&self) {
                self.handle.session().close();
            }

            /// Rejects new calls from all clones, waits for the outstanding calls, and closes the
            /// connection.
            pub async fn drain(&self) {
                self.handle.drain().await;
            }
        }

        impl $crate::proto::program::CallTransport for $client {
            type Error = $crate::shell::CallError;
        }
    };
}

pub(super) use client_methods;
