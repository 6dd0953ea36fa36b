//! Clients that exchange messages encoded by another layer.

use std::future::Future;

use crate::proto::call::Traffic;
use crate::proto::program::{Credential, Procedure, Program, ReplyBounds};
use crate::shell::CallError;
use crate::xdr::{Message, Received};

/// How many times a message may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// Once on each connection, if the client's policy allows retransmission.
    Repeated,
    /// At most once.
    Once,
}

impl Sends {
    pub(super) fn of(credential: &Credential) -> Self {
        if credential.is_repeatable() { Sends::Repeated } else { Sends::Once }
    }

    pub(super) fn retransmit(self, choice: Option<bool>) -> Option<bool> {
        match self {
            Sends::Repeated => choice,
            Sends::Once => Some(false),
        }
    }
}

/// A client over which another layer, such as [`GssClient`](super::GssClient), exchanges complete RPC
/// messages of a program version. Clones share the client's connection.
pub trait MessageTransport<P: Program>: Clone + Send + Sync + 'static {
    /// Returns an XID that no outstanding call uses.
    fn next_xid(&self) -> u32;

    /// Returns the minimum size in bytes of an item that is not copied into its message.
    fn min_item(&self) -> usize;

    /// Runs `exchange` as one call, counted and reported like the client's own calls. The default
    /// implementation neither counts nor reports the call.
    fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> impl Future<Output = Result<Q::Res, CallError>> + Send {
        let _ = xid;
        async { exchange.await.map(|(result, _)| result) }
    }

    /// Sends a call and returns the reply message, regardless of its status. The first word of `message` is
    /// the XID. Errors about sizes contain `procedure`, the name of the procedure.
    ///
    /// RPCSEC_GSS calls with a sequence number are sent once. A server drops a message that repeats a
    /// sequence number (RFC 2203 section 5.3.3.1).
    fn exchange(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
        sends: Sends,
    ) -> impl Future<Output = Result<(Received, Traffic), CallError>> + Send;
}
