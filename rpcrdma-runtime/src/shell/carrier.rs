//! What carries calls whose messages somebody else makes.

use std::future::Future;

use crate::proto::program::{Procedure, Program, ReplyBounds};
use crate::proto::rdma::Traffic;
use crate::shell::CallError;
use crate::wire::rpc::RPCSEC_GSS;
use crate::xdr::{Message, Received};

/// A client that carries whole RPC messages of a program version for what stands on it, as [`GssClient`](super::GssClient)
/// does. Clones are the same client.
pub trait Carrier<P: Program>: Clone + Send + Sync + 'static {
    /// An XID that no unanswered call has.
    fn next_xid(&self) -> u32;

    /// The smallest item that is worth to be taken out of a message, in bytes.
    fn min_item(&self) -> usize;

    /// Makes a call that `exchange` is, counted and reported as the client's own calls are. By default it is neither.
    fn observe<Q: Procedure<Program = P>>(
        &self,
        xid: u32,
        exchange: impl Future<Output = Result<(Q::Res, Traffic), CallError>> + Send,
    ) -> impl Future<Output = Result<Q::Res, CallError>> + Send {
        let _ = xid;
        async { exchange.await.map(|(result, _)| result) }
    }

    /// Sends a call, whose first word is its XID, and gives the message that answers it, whatever it says. `procedure` is
    /// what errors call it.
    ///
    /// One over RPCSEC_GSS that has a sequence number is sent once at most: the server takes that number once, and says
    /// nothing to what comes with it again (RFC 2203 section 5.3.3.1).
    fn carry(
        &self,
        procedure: &'static str,
        message: Message,
        bounds: ReplyBounds,
    ) -> impl Future<Output = Result<(Received, Traffic), CallError>> + Send;
}

/// Whether a call must not be sent again as it is: one over RPCSEC_GSS that has a sequence number. Those that make a context
/// have none.
pub(super) fn is_sent_once(message: &Message) -> bool {
    // The flavor is behind XID, message type, RPC version, program, version and procedure (RFC 5531 section 9); the control
    // procedure behind the credential's length and its version (RFC 2203 section 5).
    let word = |at: usize| {
        let word = message.stream.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*word))
    };
    let makes_context = || matches!(word(36), Some(GSS_INIT | GSS_CONTINUE_INIT));
    word(24) == Some(RPCSEC_GSS) && !makes_context()
}

const GSS_INIT: u32 = 1;
const GSS_CONTINUE_INIT: u32 = 2;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_has_a_sequence_number_is_sent_once() {
        let call = |flavor: u32, control: u32| {
            let words = [9, 0, 2, 77, 1, 3, flavor, 20, 1, control, 5, 1, 0, 0, 0];
            let stream = words.into_iter().flat_map(u32::to_be_bytes).collect::<Bytes>();
            Message { stream, items: Vec::new() }
        };
        let once = |control| is_sent_once(&call(RPCSEC_GSS, control));
        assert_eq!([0, 1, 2, 3].map(once), [true, false, false, true], "data and destroy");
        assert!(!is_sent_once(&call(1, 0)), "AUTH_SYS");
    }
}
