//! A call over any transport: its identity, its outcome, and how it was transferred.

mod traffic;
mod transport_error;

pub use traffic::Traffic;
pub use transport_error::{TransportError, Unsendable};

use crate::proto::work::CloseReason;
use crate::xdr::{Message, Received};

/// Identifies a call by the XID of its message and a count that distinguishes calls with the same XID. Later
/// calls compare greater until the count wraps around at 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// Returns the identity of a call and the XID of its message. The XID is `None` if the message is shorter
    /// than an XID.
    pub(crate) fn new(count: u32, message: &Message) -> (Self, Option<u32>) {
        let xid = message.stream.first_chunk().map(|word| u32::from_be_bytes(*word));
        (CallId(u64::from(count) << 32 | u64::from(xid.unwrap_or(0))), xid)
    }

    /// Returns the call's XID.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the XID")]
    pub fn xid(self) -> u32 {
        self.0 as u32
    }
}

/// An event of a requester.
#[derive(Debug)]
pub enum RequesterEvent {
    /// A call completed. All memory that the call advertised is fenced.
    Done {
        /// The completed call.
        call: CallId,
        /// The outcome of the call.
        outcome: Result<IncomingReply, TransportError>,
    },
    /// The connection is closed. All calls have already completed.
    Closed(CloseReason),
}

/// A received reply.
#[derive(Debug)]
pub struct IncomingReply {
    /// The RPC message.
    pub message: Received,
    /// How the call and the reply were transferred.
    pub traffic: Traffic,
}
