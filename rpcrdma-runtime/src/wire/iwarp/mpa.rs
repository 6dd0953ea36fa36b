use alloc::vec::Vec;

use bytes::Bytes;

/// The part of a frame that says how long the rest is.
pub const HEAD_LEN: usize = 20;
/// The most private data that is taken, in octets (RFC 5044 section 7.1), IRD and ORD words included.
pub const MAX_PRIVATE_DATA: usize = 512;
/// The largest IRD or ORD that can be said; one more, 0x3fff, means that it is not negotiated (RFC 6581 section 9.1).
pub const MAX_DEPTH: u16 = 0x3ffe;

const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECT: u8 = 0x20;
const ENHANCED: u8 = 0x10;
const HIGHEST_REVISION: u8 = 2;
const WORDS: usize = 4;
const PEER_TO_PEER: u16 = 0x8000;
const DEPTH: u16 = 0x3fff;

/// Request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the initiator.
    Request,
    /// From the responder.
    Reply,
}

/// Why a frame cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MpaError {
    /// It does not begin with the key: the peer speaks something else.
    #[error("the peer does not speak MPA")]
    Key,
    /// A revision above 2.
    #[error("MPA revision {0} is not supported")]
    Revision(u8),
    /// More private data than is taken.
    #[error("{0} octets of private data are more than 512")]
    PrivateData(usize),
    /// The enhanced flag without room for IRD and ORD.
    #[error("an enhanced frame without its IRD and ORD words")]
    NoWords,
}

/// The words of RFC 6581 section 9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enhanced {
    /// RDMA Reads that the sender takes at once.
    pub ird: u16,
    /// RDMA Reads that the sender makes at once.
    pub ord: u16,
    /// The A flag: the initiator's first message is a ready-to-receive indication.
    pub peer_to_peer: bool,
    /// The B, C and D flags as they came: which zero-length messages can be that indication.
    pub ready_to_receive: [bool; 3],
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    flags: u8,
    revision: u8,
    private_data: usize,
}

/// A request or a reply (RFC 5044 section 7.1, RFC 6581 section 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which.
    pub kind: Kind,
    /// The sender wants markers in what it receives.
    pub markers: bool,
    /// The sender wants CRCs.
    pub crc: bool,
    /// The connection is refused.
    pub reject: bool,
    /// The protocol's revision.
    pub revision: u8,
    /// IRD and ORD, if the frame is enhanced.
    pub enhanced: Option<Enhanced>,
    /// The upper layer's private data, behind those words.
    pub private_data: Bytes,
}

impl Head {
    /// Reads the fixed part.
    ///
    /// # Errors
    /// [`MpaError`], before anything is allocated.
    pub fn decode(kind: Kind, head: &[u8; HEAD_LEN]) -> Result<Head, MpaError> {
        let key = match kind {
            Kind::Request => REQUEST_KEY,
            Kind::Reply => REPLY_KEY,
        };
        let Some([flags, revision, high, low]) = head.strip_prefix(key) else { return Err(MpaError::Key) };
        if *revision > HIGHEST_REVISION {
            return Err(MpaError::Revision(*revision));
        }
        let private_data = usize::from(u16::from_be_bytes([*high, *low]));
        if private_data > MAX_PRIVATE_DATA {
            return Err(MpaError::PrivateData(private_data));
        }
        Ok(Head { flags: *flags, revision: *revision, private_data })
    }

    /// How many octets follow; at most [`MAX_PRIVATE_DATA`].
    #[must_use]
    pub fn private_data_len(&self) -> usize {
        self.private_data
    }

    /// The whole frame.
    ///
    /// # Errors
    /// [`MpaError::NoWords`].
    pub fn with_private_data(self, kind: Kind, private_data: &[u8]) -> Result<Frame, MpaError> {
        let is_enhanced = self.flags & ENHANCED != 0 && self.revision == HIGHEST_REVISION;
        let (enhanced, rest) = if is_enhanced {
            let ([i0, i1, o0, o1], rest) =
                private_data.split_first_chunk::<WORDS>().ok_or(MpaError::NoWords)?;
            (Some(Enhanced::decode(u16::from_be_bytes([*i0, *i1]), u16::from_be_bytes([*o0, *o1]))), rest)
        } else {
            (None, private_data)
        };
        Ok(Frame {
            kind,
            markers: self.flags & MARKERS != 0,
            crc: self.flags & CRC != 0,
            reject: self.flags & REJECT != 0,
            revision: self.revision,
            enhanced,
            private_data: Bytes::copy_from_slice(rest),
        })
    }
}

impl Enhanced {
    fn decode(ird: u16, ord: u16) -> Enhanced {
        let flag = |word: u16, bit: u16| word & bit != 0;
        Enhanced {
            ird: ird & DEPTH,
            ord: ord & DEPTH,
            peer_to_peer: flag(ird, PEER_TO_PEER),
            ready_to_receive: [flag(ird, 0x4000), flag(ord, 0x8000), flag(ord, 0x4000)],
        }
    }

    fn encode(&self) -> [u8; WORDS] {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let [send, write, read] = self.ready_to_receive;
        let ird = (self.ird & DEPTH) | flag(self.peer_to_peer, PEER_TO_PEER) | flag(send, 0x4000);
        let ord = (self.ord & DEPTH) | flag(write, 0x8000) | flag(read, 0x4000);
        let ([i0, i1], [o0, o1]) = (ird.to_be_bytes(), ord.to_be_bytes());
        [i0, i1, o0, o1]
    }
}

impl Frame {
    /// The octets. Private data beyond what the length field says is cut; senders keep it far below.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.markers, MARKERS)
            | flag(self.crc, CRC)
            | flag(self.reject, REJECT)
            | flag(self.enhanced.is_some(), ENHANCED);
        let words = self.enhanced.as_ref().map(Enhanced::encode);
        let private_data: Vec<u8> =
            words.into_iter().flatten().chain(self.private_data.iter().copied()).collect();
        let length = u16::try_from(private_data.len()).unwrap_or(u16::MAX);
        let key = match self.kind {
            Kind::Request => REQUEST_KEY,
            Kind::Reply => REPLY_KEY,
        };
        let mut out = Vec::with_capacity(HEAD_LEN.saturating_add(private_data.len()));
        out.extend_from_slice(key);
        out.extend([flags, self.revision]);
        out.extend(length.to_be_bytes());
        out.extend(private_data);
        out
    }

    /// Reads a whole frame.
    ///
    /// # Errors
    /// [`MpaError`]; nothing if it is not whole.
    pub fn decode(kind: Kind, octets: &[u8]) -> Result<Option<Frame>, MpaError> {
        let Some((head, rest)) = octets.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let head = Head::decode(kind, head)?;
        let Some(private_data) = rest.get(..head.private_data_len()) else { return Ok(None) };
        head.with_private_data(kind, private_data).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux's client and server said to each other (6.1 and 6.12, siw).
    const LINUX_REQUEST: &str = "4d504120494420526571204672616d651002000c00800000f6ab0e1801010303";
    const LINUX_REPLY: &str = "4d504120494420526570204672616d651002000c00000080f6ab0e1801000303";

    fn octets(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    #[test]
    fn frames_of_linux_are_read_and_written_again() {
        let request = Frame::decode(Kind::Request, &octets(LINUX_REQUEST)).expect("good").expect("whole");
        assert_eq!(request.enhanced.map(|words| (words.ird, words.ord)), Some((128, 0)));
        assert!(!request.crc && !request.markers && !request.reject);
        assert_eq!(request.private_data[..], octets("f6ab0e1801010303"));
        assert_eq!(request.encode(), octets(LINUX_REQUEST));
        let reply = Frame::decode(Kind::Reply, &octets(LINUX_REPLY)).expect("good").expect("whole");
        assert_eq!(reply.enhanced.map(|words| (words.ird, words.ord)), Some((0, 128)));
        assert_eq!(reply.encode(), octets(LINUX_REPLY));
    }

    #[test]
    fn every_truncation_waits() {
        let whole = octets(LINUX_REQUEST);
        for len in 0..whole.len() {
            assert_eq!(Frame::decode(Kind::Request, &whole[..len]), Ok(None), "{len}");
        }
    }

    #[test]
    fn h03_h04_h06_h07_what_is_not_taken() {
        let mut frame = octets(LINUX_REQUEST);
        assert_eq!(Frame::decode(Kind::Reply, &frame), Err(MpaError::Key));
        assert_eq!(Frame::decode(Kind::Request, b"GET / HTTP/1.1\r\nHost: example\r\n"), Err(MpaError::Key));
        for revision in [3, 255] {
            frame[17] = revision;
            assert_eq!(Frame::decode(Kind::Request, &frame), Err(MpaError::Revision(revision)));
        }
        frame[17] = 0;
        assert!(
            Frame::decode(Kind::Request, &frame)
                .is_ok_and(|frame| frame.is_some_and(|f| f.enhanced.is_none()))
        );
        frame[17] = 2;
        (frame[18], frame[19]) = (0xff, 0xff);
        assert_eq!(Frame::decode(Kind::Request, &frame), Err(MpaError::PrivateData(65535)));
        (frame[18], frame[19]) = (0, 3);
        assert_eq!(Frame::decode(Kind::Request, &frame[..23]), Err(MpaError::NoWords));
    }
}
