//! DDP segments (RFC 5041 section 4): the header that determines the placement of a segment's payload.

use super::take;

/// Size of a tagged header in octets.
pub const TAGGED_LEN: usize = 14;
/// Size of an untagged header in octets.
pub const UNTAGGED_LEN: usize = 18;

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;
const VERSION: u8 = 1;

/// A segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdpHeader {
    /// The payload is placed into memory that the receiver has advertised.
    Tagged {
        /// Whether this is the message's last segment.
        last: bool,
        /// The octet reserved for RDMAP: its version and opcode.
        control: u8,
        /// The STag of the memory.
        stag: u32,
        /// The tagged offset of the payload's first octet.
        offset: u64,
    },
    /// The payload is placed into a buffer that the receiver has queued.
    Untagged {
        /// Whether this is the message's last segment.
        last: bool,
        /// The octet reserved for RDMAP: its version and opcode.
        control: u8,
        /// Four octets reserved for RDMAP: in a Send with Invalidate, the STag to invalidate.
        word: u32,
        /// Queue number.
        queue: u32,
        /// Message sequence number, which starts at 1 for each queue.
        msn: u32,
        /// Offset of the payload's first octet in the message.
        offset: u32,
    },
}

/// The reason why octets are not a valid DDP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DdpError {
    /// The segment is shorter than its header.
    #[error("a DDP segment is shorter than its header")]
    Short,
    /// The version is not 1.
    #[error("unsupported DDP version")]
    Version {
        /// Whether the segment is tagged.
        tagged: bool,
    },
}

impl DdpHeader {
    /// Splits a segment into its header and its payload.
    ///
    /// # Errors
    /// Returns [`DdpError`] if the segment is too short or its version is not 1.
    pub fn parse(segment: &[u8]) -> Result<(Self, &[u8]), DdpError> {
        let mut rest = segment;
        let [first, control] = take(&mut rest).ok_or(DdpError::Short)?;
        let (tagged, last) = (first & TAGGED != 0, first & LAST != 0);
        if first & VERSION_MASK != VERSION {
            return Err(DdpError::Version { tagged });
        }
        let mut word = || take(&mut rest).map(u32::from_be_bytes).ok_or(DdpError::Short);
        let header = if tagged {
            let (stag, high, low) = (word()?, word()?, word()?);
            DdpHeader::Tagged { last, control, stag, offset: (u64::from(high) << 32) | u64::from(low) }
        } else {
            let (word, queue, msn, offset) = (word()?, word()?, word()?, word()?);
            DdpHeader::Untagged { last, control, word, queue, msn, offset }
        };
        Ok((header, rest))
    }

    /// Passes the octets of the header to `put`, in pieces.
    pub fn encode(&self, mut put: impl FnMut(&[u8])) {
        let first = |last: bool, tagged: u8| tagged | VERSION | if last { LAST } else { 0 };
        match *self {
            DdpHeader::Tagged { last, control, stag, offset } => {
                put(&[first(last, TAGGED), control]);
                put(&stag.to_be_bytes());
                put(&offset.to_be_bytes());
            }
            DdpHeader::Untagged { last, control, word, queue, msn, offset } => {
                put(&[first(last, 0), control]);
                for field in [word, queue, msn, offset] {
                    put(&field.to_be_bytes());
                }
            }
        }
    }

    /// Returns the size of the header in octets.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        if self.is_tagged() { TAGGED_LEN } else { UNTAGGED_LEN }
    }

    /// Returns true if the segment is tagged.
    #[must_use]
    pub fn is_tagged(&self) -> bool {
        matches!(self, DdpHeader::Tagged { .. })
    }

    /// Returns the octet reserved for RDMAP.
    #[must_use]
    pub fn control(&self) -> u8 {
        match self {
            DdpHeader::Tagged { control, .. } | DdpHeader::Untagged { control, .. } => *control,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Requirement: R518, R522
    #[test]
    fn headers_round_trip() {
        let tagged =
            DdpHeader::Tagged { last: true, control: 0x40, stag: 0x0102_0304, offset: 0x0506_0708_090a_0b0c };
        let octets = [0xc1, 0x40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let untagged = DdpHeader::Untagged {
            last: false,
            control: 0x43,
            word: 1,
            queue: 2,
            msn: 3,
            offset: 0x0405_0607,
        };
        let other = [0x01, 0x43, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 4, 5, 6, 7];
        for (header, octets) in [(tagged, &octets[..]), (untagged, &other[..])] {
            let mut encoded = Vec::new();
            header.encode(|piece| encoded.extend_from_slice(piece));
            assert_eq!(encoded, octets);
            assert_eq!(encoded.len(), header.wire_len());
            encoded.push(9);
            assert_eq!(DdpHeader::parse(&encoded).unwrap(), (header, &[9][..]));
            for cut in 0..octets.len() {
                assert_eq!(DdpHeader::parse(&octets[..cut]), Err(DdpError::Short), "cut at {cut}");
            }
        }
    }

    /// Requirement: R517
    #[test]
    fn other_versions_are_rejected() {
        for version in [0, 2, 3] {
            for (first, tagged) in [(0x80, true), (0x00, false)] {
                let octets = [first | version, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                assert_eq!(DdpHeader::parse(&octets), Err(DdpError::Version { tagged }));
            }
        }
    }
}
