use core::net::IpAddr;

use crate::proto::owner::Owner;
use crate::wire::rpc::{CallHeader, Credential, RPCSEC_GSS, RpcCall};
use crate::xdr::{Placed, Received, pad_len};

/// The identity of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallerId {
    /// All callers at this address except [`CallerId::Privileged`] callers. The port is ignored, because a
    /// client may reconnect from another port.
    Address(IpAddr),
    /// All callers at this address with a port below 1024. Usually only root can use such ports, and a server
    /// may require them. Replies to these callers are therefore not replayed to others.
    Privileged(IpAddr),
    /// The peer of one connection.
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

/// Identifies a call and its retransmissions by caller, owner, XID, procedure, length and first bytes.
///
/// An XID alone does not suffice: XIDs wrap around, and some clients always start with the same XID. A
/// checksum covers the first [`CallIdentity::PREFIX`] bytes of the call, including the content of its chunks.
/// A retransmission that divides the same bytes into different chunks therefore has the same identity. The
/// first bytes contain the credential and the start of the arguments, for example the object, the offset and
/// the count. A longer prefix would slow down every call that writes, but distinguish few additional
/// calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallIdentity {
    xid: u32,
    sum: u64,
    length: u64,
    caller: CallerId,
    owner: Owner,
    procedure: ProcedureId,
}

impl From<&CallHeader> for ProcedureId {
    fn from(call: &CallHeader) -> Self {
        ProcedureId { program: call.program, version: call.version, procedure: call.procedure }
    }
}

impl CallIdentity {
    /// The maximum number of bytes of a call that the checksum covers.
    pub const PREFIX: usize = 1024;

    /// Returns the identity of a call. Returns `None` for credentials other than AUTH_NONE, AUTH_SYS and
    /// RPCSEC_GSS. The first bytes of an RPCSEC_GSS call contain its sequence number, and the reply is valid
    /// for this number only. A retransmission with another sequence number (RFC 2203 section 5.3.3.1)
    /// therefore has another identity.
    #[must_use]
    pub fn of(call: &RpcCall, caller: CallerId) -> Option<Self> {
        let header = &call.header;
        if matches!(header.credential, Credential::Other { flavor, .. } if flavor != RPCSEC_GSS) {
            return None;
        }
        let (sum, length) = digest(call.message());
        let owner = match caller {
            CallerId::Address(address) | CallerId::Privileged(address) => address.into(),
            CallerId::Connection(_) => Owner::of_peer(None),
        };
        Some(CallIdentity { xid: header.xid, sum, length, caller, owner, procedure: header.into() })
    }

    /// Sets the owner (default: the owner of the caller's address).
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> Self {
        CallIdentity { owner, ..self }
    }

    /// Returns the owner. The call counts towards this owner's share of the cache.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the call's XID.
    #[must_use]
    pub fn xid(&self) -> u32 {
        self.xid
    }

    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> CallerId {
        self.caller
    }

    /// Returns the procedure.
    #[must_use]
    pub fn procedure(&self) -> ProcedureId {
        self.procedure
    }
}

/// Returns the checksum of the first [`CallIdentity::PREFIX`] bytes of a message, and the total length of the
/// message. Both include the items.
fn digest(message: &Received) -> (u64, u64) {
    let mut prefix = Prefix { bytes: [0; CallIdentity::PREFIX], filled: 0, length: 0 };
    let mut rest = &message.stream[..];
    if let Placed::Positioned(items) = &message.items {
        for item in items {
            let before = u64::from(item.position).saturating_sub(prefix.length);
            let before = usize::try_from(before).unwrap_or(usize::MAX);
            let (head, tail) = rest.split_at_checked(before).unwrap_or((rest, &[]));
            prefix.put(head);
            prefix.put(&item.data);
            prefix.put([0; 3].split_at(pad_len(item.data.len())).0);
            rest = tail;
        }
    }
    prefix.put(rest);
    (prefix.sum(), prefix.length)
}

struct Prefix {
    bytes: [u8; CallIdentity::PREFIX],
    filled: usize,
    /// The length of the whole message.
    length: u64,
}

impl Prefix {
    fn put(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len() as u64);
        let (_, room) = self.bytes.split_at_mut(self.filled);
        let taken = room.len().min(bytes.len());
        room.split_at_mut(taken).0.copy_from_slice(bytes.split_at(taken).0);
        self.filled = self.filled.saturating_add(taken);
    }

    /// Returns the checksum. It prevents accidental matches. It need not resist attacks, because an attacker
    /// can claim any AUTH_SYS credential anyway. The last word of a short message is padded with zeros, so
    /// the length is compared separately.
    fn sum(&self) -> u64 {
        let words = self.bytes.split_at(self.filled.next_multiple_of(8).min(CallIdentity::PREFIX)).0;
        words.chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
            let word = word.first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
            // Shifts the upper half down between the two multiplications. Multiplication never propagates
            // bits down, so without the shift, the next word could cancel a difference in the highest bits.
            let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
        })
    }
}
