use core::net::IpAddr;

use crate::wire::rpc::{CallHeader, Credential, RPCSEC_GSS, RpcCall};
use crate::xdr::{Placed, Received, pad_len};

/// Who is taken for the same caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallerId {
    /// Everybody at this address, whatever the port: a client comes back from another one.
    Address(IpAddr),
    /// Whoever is at the other end of one connection.
    Connection(u64),
}

/// A procedure of a program version, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcedureId {
    /// The program's number.
    pub program: u32,
    /// The version's number.
    pub version: u32,
    /// The procedure's number.
    pub procedure: u32,
}

/// What makes two calls one call that was sent twice: caller, XID, procedure, length, and the first bytes.
///
/// An XID alone is not enough: they come round, and some clients begin with the same one whenever they start. The sum is
/// over the first [`CallIdentity::PREFIX`] bytes of the call as it is without chunks, so that a call that travels in
/// another form the second time is the same call. They hold the credential, and so the machine's name of AUTH_SYS, and
/// at least 584 bytes of arguments: what names the object, the place and the amount. More would cost time with
/// every call that writes, and tell apart only calls that have all of that in common with the XID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallIdentity {
    xid: u32,
    sum: u64,
    length: u64,
    caller: CallerId,
    procedure: ProcedureId,
}

impl From<&CallHeader> for ProcedureId {
    fn from(call: &CallHeader) -> Self {
        ProcedureId { program: call.program, version: call.version, procedure: call.procedure }
    }
}

impl CallIdentity {
    /// How many bytes of a call are compared, by their sum.
    pub const PREFIX: usize = 1024;

    /// The identity of a call; none of one with another credential than AUTH_NONE, AUTH_SYS or RPCSEC_GSS. A call with
    /// RPCSEC_GSS has a sequence number among its first bytes, to which its reply is bound: only one that is sent again as
    /// it was is the same. Clients that give it another number (RFC 2203 section 5.3.3.1) make another call of it.
    #[must_use]
    pub fn of(call: &RpcCall, caller: CallerId) -> Option<Self> {
        let header = &call.header;
        if matches!(header.credential, Credential::Other { flavor, .. } if flavor != RPCSEC_GSS) {
            return None;
        }
        let (sum, length) = digest(call.message());
        Some(CallIdentity { xid: header.xid, sum, length, caller, procedure: header.into() })
    }

    /// The call's XID.
    #[must_use]
    pub fn xid(&self) -> u32 {
        self.xid
    }

    /// Who calls.
    #[must_use]
    pub fn caller(&self) -> CallerId {
        self.caller
    }

    /// What is called.
    #[must_use]
    pub fn procedure(&self) -> ProcedureId {
        self.procedure
    }
}

/// The sum of the first bytes of a message with its items back in their places, and its whole length.
fn digest(message: &Received) -> (u64, u64) {
    let mut begin = Begin { bytes: [0; CallIdentity::PREFIX], filled: 0, length: 0 };
    let mut rest = &message.stream[..];
    if let Placed::Positioned(items) = &message.items {
        for item in items {
            let before = u64::from(item.position).saturating_sub(begin.length);
            let before = usize::try_from(before).unwrap_or(usize::MAX);
            let (head, tail) = rest.split_at_checked(before).unwrap_or((rest, &[]));
            begin.put(head);
            begin.put(&item.data);
            begin.put([0; 3].split_at(pad_len(item.data.len())).0);
            rest = tail;
        }
    }
    begin.put(rest);
    (begin.sum(), begin.length)
}

/// The first bytes of a message.
struct Begin {
    bytes: [u8; CallIdentity::PREFIX],
    filled: usize,
    /// Of the whole message.
    length: u64,
}

impl Begin {
    fn put(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len() as u64);
        let (_, room) = self.bytes.split_at_mut(self.filled);
        let taken = room.len().min(bytes.len());
        room.split_at_mut(taken).0.copy_from_slice(bytes.split_at(taken).0);
        self.filled = self.filled.saturating_add(taken);
    }

    /// To tell mistakes apart, not enemies, who can claim any AUTH_SYS credential as it is. The bytes behind the last are zeros:
    /// how many there are is compared by itself.
    fn sum(&self) -> u64 {
        let words = self.bytes.split_at(self.filled.next_multiple_of(8).min(CallIdentity::PREFIX)).0;
        words.chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
            let word = word.first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
            // Twice, with the upper half handed down between: a product by itself hands nothing down, and what differs in the
            // highest bits of one word could be undone by the next.
            let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
        })
    }
}
