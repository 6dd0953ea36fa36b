//! The MPA request and reply that open a connection (RFC 5044 section 7.1, RFC 6581).
//!
//! A frame is read in two steps, so that no unchecked length from the peer determines an allocation. First,
//! [`FrameHeader::parse`] parses [`HEADER_LEN`] octets and rejects a length above [`MAX_PRIVATE_DATA`].
//! Then the caller reads the private data, whose length is in the header. In an enhanced frame, the private
//! data starts with [`ReadDepths`].

/// Size of a frame's fixed part in octets, before its private data.
pub const HEADER_LEN: usize = 20;
/// Size of the key at the start of a frame, in octets.
pub const KEY_LEN: usize = 16;
/// Maximum size of a frame's private data in octets (RFC 5044 section 7.1.1), including IRD and ORD.
pub const MAX_PRIVATE_DATA: u16 = 512;
/// Maximum size of the private data that this crate sends, in octets, including IRD and ORD. The limit is
/// below 256, because Linux stores the size in one octet.
pub const MAX_SENT_PRIVATE_DATA: usize = 200;
/// The highest supported revision (RFC 6581).
pub const REVISION: u8 = 2;
/// The value of an IRD or ORD that is not negotiated automatically (RFC 6581 section 9.1).
pub const NOT_NEGOTIATED: u16 = 0x3fff;

const REQUEST_KEY: &[u8; KEY_LEN] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; KEY_LEN] = b"MPA ID Rep Frame";
const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECT: u8 = 0x20;
const ENHANCED: u8 = 0x10;
const RESERVED: u8 = 0x0f;

/// The kind of an MPA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Sent by the initiator.
    Request,
    /// Sent by the responder.
    Reply,
}

impl FrameKind {
    /// Returns the key at the start of a frame of this kind.
    #[must_use]
    pub fn key(self) -> &'static [u8; KEY_LEN] {
        match self {
            FrameKind::Request => REQUEST_KEY,
            FrameKind::Reply => REPLY_KEY,
        }
    }

    /// Returns true if `octets` may be the start of a frame of this kind. A peer that does not use MPA is
    /// thus detected at the first wrong octet.
    #[must_use]
    pub fn may_begin_with(self, octets: &[u8]) -> bool {
        self.key().iter().zip(octets).all(|(ours, theirs)| ours == theirs)
    }
}

/// The reason why a frame is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpaError {
    /// The frame does not start with the key of the expected kind.
    #[error("not an MPA frame: the key is wrong")]
    Key,
    /// The revision is above 2.
    #[error("unsupported MPA revision: {0}")]
    Revision(u8),
    /// The private data exceeds the limit of RFC 5044.
    #[error("too much private data: {0} octets (limit 512)")]
    PrivateData(u16),
    /// An enhanced frame is too short for IRD and ORD (RFC 6581 section 9).
    #[error("an enhanced MPA frame lacks IRD and ORD")]
    NoDepths,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Request or reply.
    pub kind: FrameKind,
    /// M: the sender requires markers in the data that it receives.
    pub markers: bool,
    /// C: the sender requires CRCs.
    pub crc: bool,
    /// R: the connection is rejected (replies only).
    pub reject: bool,
    /// S: the private data starts with IRD and ORD (RFC 6581 section 6). Always false below revision 2.
    pub enhanced: bool,
    /// The four reserved low bits of the flags. They have no effect, and encoding preserves them.
    pub reserved: u8,
    /// Revision: 0, 1 or 2.
    pub revision: u8,
    /// Size of the private data in octets, including IRD and ORD; at most [`MAX_PRIVATE_DATA`].
    pub private_data_len: u16,
}

impl FrameHeader {
    /// Parses the fixed part of a frame of the given kind.
    ///
    /// # Errors
    /// [`MpaError::Key`], [`MpaError::Revision`], [`MpaError::PrivateData`] if the private data is too long,
    /// or [`MpaError::NoDepths`] if the private data of an enhanced frame is too short for IRD and ORD.
    pub fn parse(kind: FrameKind, octets: &[u8; HEADER_LEN]) -> Result<Self, MpaError> {
        let [key @ .., flags, revision, len_high, len_low] = octets;
        if key != kind.key() {
            return Err(MpaError::Key);
        }
        if *revision > REVISION {
            return Err(MpaError::Revision(*revision));
        }
        let header = FrameHeader {
            kind,
            markers: flags & MARKERS != 0,
            crc: flags & CRC != 0,
            reject: flags & REJECT != 0,
            enhanced: flags & ENHANCED != 0 && *revision == REVISION,
            reserved: flags & RESERVED,
            revision: *revision,
            private_data_len: u16::from_be_bytes([*len_high, *len_low]),
        };
        if header.private_data_len > MAX_PRIVATE_DATA {
            return Err(MpaError::PrivateData(header.private_data_len));
        }
        if header.enhanced && usize::from(header.private_data_len) < ReadDepths::LEN {
            return Err(MpaError::NoDepths);
        }
        Ok(header)
    }

    /// Returns the encoded octets.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.markers, MARKERS)
            | flag(self.crc, CRC)
            | flag(self.reject, REJECT)
            | flag(self.enhanced, ENHANCED)
            | (self.reserved & RESERVED);
        let mut octets = [0; HEADER_LEN];
        let (key, rest) = octets.split_at_mut(KEY_LEN);
        key.copy_from_slice(self.kind.key());
        let [len_high, len_low] = self.private_data_len.to_be_bytes();
        rest.copy_from_slice(&[flags, self.revision, len_high, len_low]);
        octets
    }
}

/// The first four octets of an enhanced frame's private data: the maximum numbers of outstanding RDMA Reads
/// (IRD and ORD), and the peer-to-peer bits (RFC 6581 section 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadDepths {
    /// IRD: the maximum number of Reads that the sender serves at a time; at most [`NOT_NEGOTIATED`].
    pub ird: u16,
    /// ORD: the maximum number of Reads that the sender has outstanding; at most [`NOT_NEGOTIATED`].
    pub ord: u16,
    /// A: the sender requires the peer-to-peer model. After the reply, the initiator sends a ready-to-receive
    /// (RTR) message before all other messages.
    pub peer_to_peer: bool,
    /// B: a zero-length Send can be the RTR message.
    pub rtr_send: bool,
    /// C: a zero-length RDMA Write can be the RTR message.
    pub rtr_write: bool,
    /// D: a zero-length RDMA Read can be the RTR message.
    pub rtr_read: bool,
}

impl ReadDepths {
    /// Encoded size in octets.
    pub const LEN: usize = 4;

    /// Splits the private data of an enhanced frame into [`ReadDepths`] and the upper layer's data.
    ///
    /// # Errors
    /// [`MpaError::NoDepths`] if the data is shorter than [`ReadDepths::LEN`].
    pub fn split(private_data: &[u8]) -> Result<(Self, &[u8]), MpaError> {
        let ([i0, i1, o0, o1], rest) = private_data.split_first_chunk().ok_or(MpaError::NoDepths)?;
        let (ird, ord) = (u16::from_be_bytes([*i0, *i1]), u16::from_be_bytes([*o0, *o1]));
        let depths = ReadDepths {
            ird: ird & NOT_NEGOTIATED,
            ord: ord & NOT_NEGOTIATED,
            peer_to_peer: ird & 0x8000 != 0,
            rtr_send: ird & 0x4000 != 0,
            rtr_write: ord & 0x8000 != 0,
            rtr_read: ord & 0x4000 != 0,
        };
        Ok((depths, rest))
    }

    /// Returns the encoded octets.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let ird = (self.ird & NOT_NEGOTIATED) | flag(self.peer_to_peer, 0x8000) | flag(self.rtr_send, 0x4000);
        let ord = (self.ord & NOT_NEGOTIATED) | flag(self.rtr_write, 0x8000) | flag(self.rtr_read, 0x4000);
        let ([i0, i1], [o0, o1]) = (ird.to_be_bytes(), ord.to_be_bytes());
        [i0, i1, o0, o1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The MPA request of the NFS client and the MPA reply of the NFS server in Linux 6.1 and 6.12.
    const LINUX_REQUEST: &[u8] =
        b"MPA ID Req Frame\x10\x02\x00\x0c\x00\x80\x00\x00\xf6\xab\x0e\x18\x01\x01\x03\x03";
    const LINUX_REPLY: &[u8] =
        b"MPA ID Rep Frame\x10\x02\x00\x0c\x00\x00\x00\x80\xf6\xab\x0e\x18\x01\x00\x03\x03";

    fn parse(kind: FrameKind, octets: &[u8]) -> (FrameHeader, ReadDepths, Vec<u8>) {
        let (head, private_data) = octets.split_first_chunk().unwrap();
        let header = FrameHeader::parse(kind, head).unwrap();
        assert_eq!(usize::from(header.private_data_len), private_data.len());
        let (depths, rest) = ReadDepths::split(private_data).unwrap();
        let encoded = [&header.encode()[..], &depths.encode()[..], rest].concat();
        assert_eq!(encoded, octets, "the encoding differs from the input");
        (header, depths, rest.to_vec())
    }

    /// Requirement: R446, R702
    #[test]
    fn frames_of_linux() {
        let (header, depths, rest) = parse(FrameKind::Request, LINUX_REQUEST);
        assert!(header.enhanced && !header.markers && !header.crc && !header.reject);
        assert_eq!((header.revision, depths.ird, depths.ord), (2, 128, 0));
        assert_eq!(rest, [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]);
        let (_, depths, rest) = parse(FrameKind::Reply, LINUX_REPLY);
        assert_eq!((depths.ird, depths.ord), (0, 128));
        assert_eq!(rest, [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3]);
    }

    /// Requirement: R710
    #[test]
    fn every_bit_round_trips() {
        for bits in 0..=255u8 {
            let octets = [&b"MPA ID Rep Frame"[..], &[bits, 2, 0, 4]].concat();
            let header = FrameHeader::parse(FrameKind::Reply, octets.first_chunk().unwrap()).unwrap();
            assert_eq!(header.encode(), octets.as_slice());
        }
        for word in [0x8000_0000u32, 0x4000_0000, 0x8000, 0x4000, 0x3fff_3fff, 0xffff_ffff, 0] {
            let octets = word.to_be_bytes();
            let (depths, rest) = ReadDepths::split(&octets).unwrap();
            assert!(rest.is_empty());
            assert_eq!(depths.encode(), octets);
        }
    }

    /// Requirement: R342
    #[test]
    fn invalid_frames_are_rejected() {
        let refused = |octets: &[u8]| {
            FrameHeader::parse(FrameKind::Request, octets.first_chunk().unwrap()).unwrap_err()
        };
        assert_eq!(refused(LINUX_REPLY), MpaError::Key);
        assert_eq!(refused(b"GET / HTTP/1.1\r\nHost:"), MpaError::Key);
        assert_eq!(refused(b"MPA ID Req Frame\x10\x03\x00\x0c"), MpaError::Revision(3));
        assert_eq!(refused(b"MPA ID Req Frame\x10\xff\x00\x0c"), MpaError::Revision(255));
        assert_eq!(refused(b"MPA ID Req Frame\x10\x02\xff\xff"), MpaError::PrivateData(65535));
        assert_eq!(refused(b"MPA ID Req Frame\x00\x01\x02\x01"), MpaError::PrivateData(513));
        assert_eq!(refused(b"MPA ID Req Frame\x10\x02\x00\x03"), MpaError::NoDepths);
        for (just_right, len) in
            [(b"MPA ID Req Frame\x00\x01\x02\x00", 512), (b"MPA ID Req Frame\x10\x02\x00\x04", 4)]
        {
            let header = FrameHeader::parse(FrameKind::Request, just_right);
            assert_eq!(header.map(|header| header.private_data_len), Ok(len));
        }
    }

    #[test]
    fn an_unrelated_peer_is_detected_by_its_first_octets() {
        assert!(FrameKind::Request.may_begin_with(b"MPA ID Re"));
        assert!(FrameKind::Request.may_begin_with(LINUX_REQUEST));
        assert!(!FrameKind::Request.may_begin_with(b"G"));
        assert!(!FrameKind::Request.may_begin_with(b"MPA ID Rep"));
    }
}
