use crate::wire::rdma::Segment;

/// Length of a tagged DDP header (RFC 5041 section 4.1).
pub const TAGGED_LEN: usize = 14;
/// Length of an untagged DDP header (RFC 5041 section 4.2).
pub const UNTAGGED_LEN: usize = 18;
const READ_REQUEST_LEN: usize = 28;

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const DDP_VERSION_MASK: u8 = 0x03;
const DDP_VERSION: u8 = 0x01;
const RDMAP_VERSION_MASK: u8 = 0xc0;
const RDMAP_VERSION: u8 = 0x40;
const OPCODE_MASK: u8 = 0x0f;

/// What a message is (RFC 5040 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0,
    /// RDMA Read Request.
    ReadRequest = 1,
    /// RDMA Read Response.
    ReadResponse = 2,
    /// Send.
    Send = 3,
    /// Send with Invalidate.
    SendInvalidate = 4,
    /// Send with Solicited Event.
    SendSolicited = 5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 6,
    /// Terminate.
    Terminate = 7,
}

/// The untagged queues (RFC 5040 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Sends.
    Send = 0,
    /// Read Requests.
    ReadRequest = 1,
    /// Terminate.
    Terminate = 2,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The ULPDU ends inside of it.
    TooShort,
    /// Another version of DDP; tagged or not.
    DdpVersion {
        /// The T bit.
        tagged: bool,
    },
    /// Another version of RDMAP.
    RdmapVersion,
    /// No such opcode, or not with this T bit.
    Opcode,
}

/// A DDP segment's header with RDMAP's control octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ddp {
    /// Placed by STag and offset: Write, Read Response.
    Tagged {
        /// Which.
        opcode: Opcode,
        /// The message's last segment.
        last: bool,
        /// The memory.
        stag: u32,
        /// Where in it.
        offset: u64,
    },
    /// Placed in the next buffer of a queue: the others.
    Untagged {
        /// Which.
        opcode: Opcode,
        /// The message's last segment.
        last: bool,
        /// The STag to invalidate; zero and ignored otherwise.
        invalidate: u32,
        /// The queue's number as it came.
        queue: u32,
        /// The message's number in its queue, from 1.
        msn: u32,
        /// Where in the message.
        offset: u32,
    },
}

impl Opcode {
    fn from_octet(octet: u8) -> Option<Opcode> {
        use Opcode::{
            ReadRequest, ReadResponse, Send, SendInvalidate, SendSolicited, SendSolicitedInvalidate,
        };
        Some(match octet & OPCODE_MASK {
            0 => Opcode::Write,
            1 => ReadRequest,
            2 => ReadResponse,
            3 => Send,
            4 => SendInvalidate,
            5 => SendSolicited,
            6 => SendSolicitedInvalidate,
            7 => Opcode::Terminate,
            _ => return None,
        })
    }

    fn is_tagged(self) -> bool {
        matches!(self, Opcode::Write | Opcode::ReadResponse)
    }

    /// Whether the message invalidates an STag.
    #[must_use]
    pub fn invalidates(self) -> bool {
        matches!(self, Opcode::SendInvalidate | Opcode::SendSolicitedInvalidate)
    }
}

impl Ddp {
    /// Reads the header; the rest is payload.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn decode(ulpdu: &[u8]) -> Result<(Ddp, &[u8]), HeaderError> {
        let ([ddp, rdmap], rest) = ulpdu.split_first_chunk().ok_or(HeaderError::TooShort)?;
        let tagged = ddp & TAGGED != 0;
        if ddp & DDP_VERSION_MASK != DDP_VERSION {
            return Err(HeaderError::DdpVersion { tagged });
        }
        if rdmap & RDMAP_VERSION_MASK != RDMAP_VERSION {
            return Err(HeaderError::RdmapVersion);
        }
        let opcode = Opcode::from_octet(*rdmap).ok_or(HeaderError::Opcode)?;
        if opcode.is_tagged() != tagged {
            return Err(HeaderError::Opcode);
        }
        let last = ddp & LAST != 0;
        let (word, rest) = word(rest)?;
        if tagged {
            let (offset, payload) = rest.split_first_chunk().ok_or(HeaderError::TooShort)?;
            return Ok((
                Ddp::Tagged { opcode, last, stag: word, offset: u64::from_be_bytes(*offset) },
                payload,
            ));
        }
        let (queue, rest) = self::word(rest)?;
        let (msn, rest) = self::word(rest)?;
        let (offset, payload) = self::word(rest)?;
        Ok((Ddp::Untagged { opcode, last, invalidate: word, queue, msn, offset }, payload))
    }

    /// Writes the ULPDU's length and the header.
    ///
    /// `payload` is at most [`super::MAX_ULPDU`] less the header.
    #[must_use]
    pub fn encode(&self, payload: usize) -> ([u8; 2 + UNTAGGED_LEN], usize) {
        let mut out = [0; 2 + UNTAGGED_LEN];
        let (header, tagged, last, opcode) = match self {
            Ddp::Tagged { opcode, last, .. } => (TAGGED_LEN, TAGGED, *last, *opcode),
            Ddp::Untagged { opcode, last, .. } => (UNTAGGED_LEN, 0, *last, *opcode),
        };
        let length = u16::try_from(payload.saturating_add(header)).unwrap_or(u16::MAX);
        let control = tagged | if last { LAST } else { 0 } | DDP_VERSION;
        let mut at = out.iter_mut();
        let mut put = |bytes: &[u8]| at.by_ref().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        put(&length.to_be_bytes());
        put(&[control]);
        put(&[RDMAP_VERSION | opcode as u8]);
        match self {
            Ddp::Tagged { stag, offset, .. } => {
                put(&stag.to_be_bytes());
                put(&offset.to_be_bytes());
            }
            Ddp::Untagged { invalidate, queue, msn, offset, .. } => {
                [invalidate, queue, msn, offset].into_iter().for_each(|word| put(&word.to_be_bytes()));
            }
        }
        (out, 2usize.saturating_add(header))
    }
}

fn word(bytes: &[u8]) -> Result<(u32, &[u8]), HeaderError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(HeaderError::TooShort)?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// The payload of a Read Request (RFC 5040 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The requester's STag, where the data goes.
    pub sink: u32,
    /// Where in it.
    pub sink_offset: u64,
    /// The memory to read; its length is the request's.
    pub source: Segment,
}

impl ReadRequest {
    /// Reads it.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<ReadRequest> {
        let payload: &[u8; READ_REQUEST_LEN] = payload.try_into().ok()?;
        let (sink, rest) = payload.split_first_chunk()?;
        let (sink_offset, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (handle, rest) = rest.split_first_chunk()?;
        let offset = rest.first_chunk()?;
        Some(ReadRequest {
            sink: u32::from_be_bytes(*sink),
            sink_offset: u64::from_be_bytes(*sink_offset),
            source: Segment {
                handle: u32::from_be_bytes(*handle),
                length: u32::from_be_bytes(*length),
                offset: u64::from_be_bytes(*offset),
            },
        })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; READ_REQUEST_LEN] {
        let mut out = [0; READ_REQUEST_LEN];
        let mut at = out.iter_mut();
        let mut put = |bytes: &[u8]| at.by_ref().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        put(&self.sink.to_be_bytes());
        put(&self.sink_offset.to_be_bytes());
        put(&self.source.length.to_be_bytes());
        put(&self.source.handle.to_be_bytes());
        put(&self.source.offset.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEND: Ddp =
        Ddp::Untagged { opcode: Opcode::Send, last: true, invalidate: 0, queue: 0, msn: 1, offset: 0 };
    const WRITE: Ddp =
        Ddp::Tagged { opcode: Opcode::Write, last: false, stag: 0x1122_3344, offset: 0x5566_7788_99aa_bbcc };

    #[test]
    fn layouts_of_rfc_5041_section_4() {
        let (send, len) = SEND.encode(5);
        assert_eq!(send[..len], [0, 23, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        let (write, len) = WRITE.encode(0);
        assert_eq!(
            write[..len],
            [0, 14, 0x81, 0x40, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc]
        );
    }

    #[test]
    fn headers_come_back_and_every_truncation_is_refused() {
        for header in [SEND, WRITE] {
            let (wire, len) = header.encode(0);
            assert_eq!(Ddp::decode(&wire[2..len]), Ok((header, &[][..])));
            for cut in 2..len {
                assert_eq!(Ddp::decode(&wire[2..cut]), Err(HeaderError::TooShort));
            }
        }
        let request =
            ReadRequest { sink: 1, sink_offset: 2, source: Segment { handle: 3, length: 4, offset: 5 } };
        assert_eq!(ReadRequest::decode(&request.encode()), Some(request));
        assert_eq!(ReadRequest::decode(&request.encode()[1..]), None);
    }

    #[test]
    fn h54_h58_versions_opcodes_and_the_t_bit() {
        let decode = |ddp: u8, rdmap: u8| {
            let mut ulpdu = [0; UNTAGGED_LEN];
            (ulpdu[0], ulpdu[1]) = (ddp, rdmap);
            Ddp::decode(&ulpdu).map(|_| ())
        };
        assert_eq!(decode(0x41, 0x43), Ok(()));
        for version in [0x40, 0x42, 0x43] {
            assert_eq!(decode(version, 0x43), Err(HeaderError::DdpVersion { tagged: false }));
        }
        for version in [0x00, 0x80, 0xc0] {
            assert_eq!(decode(0x41, version | 3), Err(HeaderError::RdmapVersion));
        }
        for opcode in 8..16 {
            assert_eq!(decode(0x41, 0x40 | opcode), Err(HeaderError::Opcode));
        }
        assert_eq!(decode(0xc1, 0x43), Err(HeaderError::Opcode), "a tagged Send");
        assert_eq!(decode(0x41, 0x40), Err(HeaderError::Opcode), "an untagged Write");
    }
}
