//! RDMAP messages (RFC 5040 section 4): the opcode in a DDP segment's control octet, and the Read Request.

use super::take;

/// Size in octets of a Read Request's header, which is the whole payload of its DDP segment.
pub const READ_REQUEST_LEN: usize = 28;
/// Number of the untagged DDP queue for Sends.
pub const QUEUE_SEND: u32 = 0;
/// Number of the untagged DDP queue for Read Requests.
pub const QUEUE_READ_REQUEST: u32 = 1;
/// Number of the untagged DDP queue for Terminates.
pub const QUEUE_TERMINATE: u32 = 2;

const VERSION: u8 = 0x40;
const VERSION_MASK: u8 = 0xc0;
const OPCODE_MASK: u8 = 0x0f;

/// The type of an RDMAP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA Write.
    Write,
    /// RDMA Read Request.
    ReadRequest,
    /// RDMA Read Response.
    ReadResponse,
    /// Send, in four variants.
    Send {
        /// Whether the Send invalidates an STag of the receiver.
        invalidate: bool,
        /// Whether the Send requests a solicited event at the receiver. This implementation reports every
        /// Send.
        solicited: bool,
    },
    /// Terminate.
    Terminate,
}

/// The reason why a control octet is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdmapError {
    /// The version is not 1.
    #[error("unsupported RDMAP version")]
    Version,
    /// The opcode is unknown.
    #[error("unknown RDMAP opcode: {0}")]
    Opcode(u8),
}

impl Opcode {
    /// Parses the control octet of a segment.
    ///
    /// # Errors
    /// Returns [`RdmapError`] if the version or the opcode is invalid.
    pub fn from_control(control: u8) -> Result<Self, RdmapError> {
        if control & VERSION_MASK != VERSION {
            return Err(RdmapError::Version);
        }
        match control & OPCODE_MASK {
            0 => Ok(Opcode::Write),
            1 => Ok(Opcode::ReadRequest),
            2 => Ok(Opcode::ReadResponse),
            3 => Ok(Opcode::Send { invalidate: false, solicited: false }),
            4 => Ok(Opcode::Send { invalidate: true, solicited: false }),
            5 => Ok(Opcode::Send { invalidate: false, solicited: true }),
            6 => Ok(Opcode::Send { invalidate: true, solicited: true }),
            7 => Ok(Opcode::Terminate),
            other => Err(RdmapError::Opcode(other)),
        }
    }

    /// Returns the control octet.
    #[must_use]
    pub fn control(self) -> u8 {
        VERSION
            | match self {
                Opcode::Write => 0,
                Opcode::ReadRequest => 1,
                Opcode::ReadResponse => 2,
                Opcode::Send { invalidate: false, solicited: false } => 3,
                Opcode::Send { invalidate: true, solicited: false } => 4,
                Opcode::Send { invalidate: false, solicited: true } => 5,
                Opcode::Send { invalidate: true, solicited: true } => 6,
                Opcode::Terminate => 7,
            }
    }

    /// Returns true if the message's segments are tagged (RFC 5040 section 4.1).
    #[must_use]
    pub fn is_tagged(self) -> bool {
        matches!(self, Opcode::Write | Opcode::ReadResponse)
    }
}

/// The content of an RDMA Read Request (RFC 5040 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// STag of the requester's memory for the response.
    pub sink_stag: u32,
    /// Offset in the requester's memory.
    pub sink_offset: u64,
    /// Number of octets to read.
    pub length: u32,
    /// STag of the responder's memory.
    pub source_stag: u32,
    /// Offset in the responder's memory.
    pub source_offset: u64,
}

impl ReadRequest {
    /// Parses the payload of a Read Request's segment. Returns `None` unless the size of the payload is
    /// [`READ_REQUEST_LEN`].
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let mut rest = octets;
        let request = ReadRequest {
            sink_stag: u32::from_be_bytes(take(&mut rest)?),
            sink_offset: u64::from_be_bytes(take(&mut rest)?),
            length: u32::from_be_bytes(take(&mut rest)?),
            source_stag: u32::from_be_bytes(take(&mut rest)?),
            source_offset: u64::from_be_bytes(take(&mut rest)?),
        };
        rest.is_empty().then_some(request)
    }

    /// Passes the encoded request to `put` in pieces.
    pub fn encode(&self, mut put: impl FnMut(&[u8])) {
        put(&self.sink_stag.to_be_bytes());
        put(&self.sink_offset.to_be_bytes());
        put(&self.length.to_be_bytes());
        put(&self.source_stag.to_be_bytes());
        put(&self.source_offset.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Requirement: R601, R603, R604
    #[test]
    fn control_octets_round_trip() {
        let send = |invalidate, solicited| Opcode::Send { invalidate, solicited };
        let opcodes = [
            Opcode::Write,
            Opcode::ReadRequest,
            Opcode::ReadResponse,
            send(false, false),
            send(true, false),
            send(false, true),
            send(true, true),
            Opcode::Terminate,
        ];
        for (low, opcode) in (0..).zip(opcodes) {
            assert_eq!(Opcode::from_control(0x40 | low), Ok(opcode));
            assert_eq!(opcode.control(), 0x40 | low);
            assert_eq!(opcode.is_tagged(), low == 0 || low == 2);
            assert_eq!(Opcode::from_control(0x70 | low), Ok(opcode), "reserved bits are ignored");
        }
        for low in 8..=15u8 {
            assert_eq!(Opcode::from_control(0x40 | low), Err(RdmapError::Opcode(low)));
        }
        for version in [0x00, 0x80, 0xc0] {
            assert_eq!(Opcode::from_control(version | 3), Err(RdmapError::Version));
        }
    }

    /// Requirement: R610
    #[test]
    fn a_read_request_round_trips() {
        let request = ReadRequest {
            sink_stag: 1,
            sink_offset: 2,
            length: 3,
            source_stag: 0x0405_0607,
            source_offset: 0x0809_0a0b_0c0d_0e0f,
        };
        let mut octets = Vec::new();
        request.encode(|piece| octets.extend_from_slice(piece));
        assert_eq!(octets[16..], [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(octets.len(), READ_REQUEST_LEN);
        assert_eq!(ReadRequest::parse(&octets), Some(request));
        for cut in 0..READ_REQUEST_LEN {
            assert_eq!(ReadRequest::parse(&octets[..cut]), None);
        }
        octets.push(0);
        assert_eq!(ReadRequest::parse(&octets), None, "one octet too many");
    }
}
