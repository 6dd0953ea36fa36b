//! The Terminate message (RFC 5040 section 4.8): the reason why a stream ends.

use alloc::vec::Vec;
use core::fmt;

use super::take;

const HAS_LENGTH: u8 = 0x80;
const HAS_DDP: u8 = 0x40;
const HAS_RDMAP: u8 = 0x20;
const FLAGS: u8 = HAS_LENGTH | HAS_DDP | HAS_RDMAP;
/// The three flags as Linux's siw sends them, in reverse bit order.
const SIW_FLAGS: u8 = 0x07;

/// An error, with the layer that detected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The layer: 0 for RDMAP, 1 for DDP, 2 for MPA.
    pub layer: u8,
    /// Error type within the layer.
    pub etype: u8,
    /// Error code within the type.
    pub code: u8,
}

const fn code(layer: u8, etype: u8, code: u8) -> Code {
    Code { layer, etype, code }
}

impl Code {
    /// RDMAP: local catastrophic error.
    pub const LOCAL_CATASTROPHIC: Code = code(0, 0, 0);
    /// RDMAP, in a Read Request: the source STag is invalid.
    pub const READ_INVALID_STAG: Code = code(0, 1, 0x00);
    /// RDMAP, in a Read Request: the range exceeds the source.
    pub const READ_BOUNDS: Code = code(0, 1, 0x01);
    /// RDMAP: the region does not permit the access.
    pub const ACCESS_RIGHTS: Code = code(0, 1, 0x02);
    /// RDMAP, in a Read Request: the end of the range overflows 64 bits.
    pub const READ_WRAP: Code = code(0, 1, 0x04);
    /// RDMAP: the STag cannot be invalidated.
    pub const CANNOT_INVALIDATE: Code = code(0, 1, 0x09);
    /// RDMAP: invalid version.
    pub const RDMAP_VERSION: Code = code(0, 2, 0x05);
    /// RDMAP: unknown or unexpected opcode.
    pub const UNEXPECTED_OPCODE: Code = code(0, 2, 0x06);
    /// RDMAP: catastrophic error of the stream, such as more outstanding Read Requests than the IRD.
    pub const STREAM_CATASTROPHIC: Code = code(0, 2, 0x07);
    /// RDMAP: unspecified error, such as a malformed Read Request or a violation of the upper-layer protocol.
    pub const UNSPECIFIED: Code = code(0, 2, 0xff);
    /// DDP, tagged: invalid STag.
    pub const INVALID_STAG: Code = code(1, 1, 0x00);
    /// DDP, tagged: the range exceeds the region, or the offset does not continue the message.
    pub const BASE_OR_BOUNDS: Code = code(1, 1, 0x01);
    /// DDP, tagged: the end of the range overflows 64 bits.
    pub const WRAP: Code = code(1, 1, 0x03);
    /// DDP, tagged: invalid version.
    pub const TAGGED_VERSION: Code = code(1, 1, 0x04);
    /// DDP, untagged: unknown queue, or wrong queue for the message.
    pub const INVALID_QUEUE: Code = code(1, 2, 0x01);
    /// DDP, untagged: no posted Receive.
    pub const NO_BUFFER: Code = code(1, 2, 0x02);
    /// DDP, untagged: the message sequence number is not the expected number.
    pub const MSN_RANGE: Code = code(1, 2, 0x03);
    /// DDP, untagged: the offset does not continue the message.
    pub const INVALID_OFFSET: Code = code(1, 2, 0x04);
    /// DDP, untagged: the message is longer than the Receive buffer.
    pub const TOO_LONG: Code = code(1, 2, 0x05);
    /// DDP, untagged: invalid version.
    pub const UNTAGGED_VERSION: Code = code(1, 2, 0x06);
    /// MPA: invalid CRC.
    pub const CRC: Code = code(2, 0, 0x02);
    /// MPA: invalid FPDU length, or a marker that does not point to the start of its FPDU.
    pub const FPDU_LENGTH: Code = code(2, 0, 0x03);
    /// MPA: the initiator's IRD is below the responder's ORD (RFC 6581 section 9.1).
    pub const INSUFFICIENT_IRD: Code = code(2, 0, 0x06);

    /// Returns true if RFC 5040 (figure 9), RFC 5041 (section 7.2), RFC 5044 (section 8) or RFC 6581 defines
    /// this error.
    #[must_use]
    pub fn is_known(self) -> bool {
        match (self.layer, self.etype) {
            (0, 0) => true,
            (0, 1) => matches!(self.code, 0..=4 | 9 | 0xff),
            (0, 2) => matches!(self.code, 5..=9 | 0xff),
            (1, 0) => self.code == 0,
            (1, 1) => self.code <= 4,
            (1, 2) => matches!(self.code, 1..=6),
            (2, 0) => matches!(self.code, 1..=7),
            _ => false,
        }
    }

    /// Returns a description of the error.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match (self.layer, self.etype, self.code) {
            (0 | 1, 0, _) => "local catastrophic error",
            (0, 1, 0) | (1, 1, 0) => "no such STag",
            (0 | 1, 1, 1) => "access outside the region",
            (0, 1, 2) => "access not permitted",
            (0, 1, 3) | (1, 1, 2) => "the STag belongs to another stream",
            (0, 1, 4) | (1, 1, 3) => "the offset wraps",
            (0, 1 | 2, 9) => "the STag cannot be invalidated",
            (0, 2, 5) => "unsupported RDMAP version",
            (0, 2, 6) => "unexpected opcode",
            (0, 2, 7 | 8) => "catastrophic error",
            (0, 2, 0xff) => "unspecified error",
            (1, 1, 4) | (1, 2, 6) => "unsupported DDP version",
            (1, 2, 1) => "no such queue",
            (1, 2, 2) => "no Receive is posted",
            (1, 2, 3) => "wrong message sequence number",
            (1, 2, 4) => "wrong message offset",
            (1, 2, 5) => "the message is longer than the Receive buffer",
            (2, 0, 1) => "TCP stream lost",
            (2, 0, 2) => "wrong CRC",
            (2, 0, 3) => "invalid FPDU length or marker",
            (2, 0, 4) => "invalid MPA request or reply",
            (2, 0, 5) => "catastrophic error in MPA",
            (2, 0, 6) => "IRD too small",
            (2, 0, 7) => "no common type of ready-to-receive (RTR) message",
            _ => "unknown error",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Code { layer, etype, code } = self;
        write!(f, "{} (layer {layer}, type {etype}, code {code:#04x})", self.meaning())
    }
}

/// A Terminate message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// The error.
    pub code: Code,
    /// The length and the encoded DDP header of the segment that caused the error, if any.
    pub segment: Option<(u16, Vec<u8>)>,
    /// The encoded Read Request that caused the error, if any. Ignored if `segment` is `None`.
    pub read_request: Option<Vec<u8>>,
}

impl Terminate {
    /// Returns the payload of the message in the format of RFC 5040.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Code { layer, etype, code } = self.code;
        let mut flags = 0;
        if self.segment.is_some() {
            flags |= HAS_LENGTH | HAS_DDP;
        }
        if self.segment.is_some() && self.read_request.is_some() {
            flags |= HAS_RDMAP;
        }
        let mut octets = alloc::vec![(layer << 4) | (etype & 0x0f), code, flags, 0];
        if let Some((length, header)) = &self.segment {
            octets.extend_from_slice(&length.to_be_bytes());
            octets.extend_from_slice(header);
            octets.extend_from_slice(self.read_request.as_deref().unwrap_or_default());
        }
        octets
    }

    /// Parses the error code of a peer's Terminate. The code is for diagnosis only, so parsing is lenient.
    /// Truncated messages and the format of Linux's siw are accepted. siw swaps the halves of the first octet
    /// and reverses the bit order of the flags. Returns `None` if the code itself is incomplete.
    #[must_use]
    pub fn read_code(mut octets: &[u8]) -> Option<Code> {
        let [first, code] = take(&mut octets)?;
        let flags = octets.first().copied().unwrap_or(0);
        let rfc = Code { layer: first >> 4, etype: first & 0x0f, code };
        let siw = Code { layer: first & 0x0f, etype: first >> 4, code };
        let swapped = match (flags & FLAGS != 0, flags & SIW_FLAGS != 0) {
            (true, _) => false,
            (false, true) => siw.is_known(),
            (false, false) => !rfc.is_known() && siw.is_known(),
        };
        Some(if swapped { siw } else { rfc })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// Requirement: R612
    #[test]
    fn octets_of_rfc_5040() {
        let segment = Some((40, alloc::vec![1; 18]));
        let code = Code { layer: 1, etype: 2, code: 7 };
        let octets = Terminate { code, segment, read_request: None }.encode();
        assert_eq!(octets[..6], [0x12, 0x07, 0xc0, 0x00, 0, 40]);
        assert_eq!(octets.len(), 24);
        let bare = Terminate { code: Code::CRC, segment: None, read_request: None };
        assert_eq!(bare.encode(), [0x20, 0x02, 0x00, 0x00]);
    }

    #[test]
    fn both_bit_orders_are_parsed() {
        let code = |octets: &[u8]| Terminate::read_code(octets);
        assert_eq!(code(&[0x12, 0x02, 0xc0, 0x00]), Some(Code::NO_BUFFER), "RFC 5040");
        assert_eq!(code(&[0x21, 0x02, 0x03, 0x00]), Some(Code::NO_BUFFER), "siw, captured");
        assert_eq!(code(&[0x21, 0x02, 0x00, 0x00]), Some(Code::NO_BUFFER), "siw without flags");
        assert_eq!(
            code(&[0x20, 0x02, 0x00, 0x00]),
            Some(Code::CRC),
            "without flags, the format of RFC 5040 is tried first"
        );
        assert_eq!(
            code(&[0x20, 0x07, 0x03, 0x00]),
            Some(Code::STREAM_CATASTROPHIC),
            "siw, detected by its flags"
        );
        let rfc = |layer, etype, code| Some(Code { layer, etype, code });
        assert_eq!(code(&[0x20, 0x07, 0x00, 0x00]), rfc(2, 0, 7), "valid in both orders");
        assert_eq!(code(&[0x45, 0x09, 0x00, 0x00]), rfc(4, 5, 9), "valid in neither order");
        assert_eq!(code(&[0xff, 0xff, 0xff, 0xff, 1]), Some(Code { layer: 15, etype: 15, code: 255 }));
        assert_eq!(code(&[0x12, 0x02]), Some(Code::NO_BUFFER), "cut short");
        assert_eq!(code(&[0x12]), None);
        assert_eq!(code(&[]), None);
    }

    /// The codes are from RFC 5040 figure 9, RFC 5041 section 7.2, RFC 5044 section 8 and RFC 6581.
    ///
    /// Requirement: R559, R613
    #[test]
    fn codes_have_the_numbers_of_the_rfcs() {
        for (Code { layer, etype, code }, expected) in [
            (Code::LOCAL_CATASTROPHIC, (0, 0, 0)),
            (Code::READ_INVALID_STAG, (0, 1, 0)),
            (Code::READ_BOUNDS, (0, 1, 1)),
            (Code::ACCESS_RIGHTS, (0, 1, 2)),
            (Code::READ_WRAP, (0, 1, 4)),
            (Code::CANNOT_INVALIDATE, (0, 1, 9)),
            (Code::RDMAP_VERSION, (0, 2, 5)),
            (Code::UNEXPECTED_OPCODE, (0, 2, 6)),
            (Code::STREAM_CATASTROPHIC, (0, 2, 7)),
            (Code::UNSPECIFIED, (0, 2, 0xff)),
            (Code::INVALID_STAG, (1, 1, 0)),
            (Code::BASE_OR_BOUNDS, (1, 1, 1)),
            (Code::WRAP, (1, 1, 3)),
            (Code::TAGGED_VERSION, (1, 1, 4)),
            (Code::INVALID_QUEUE, (1, 2, 1)),
            (Code::NO_BUFFER, (1, 2, 2)),
            (Code::MSN_RANGE, (1, 2, 3)),
            (Code::INVALID_OFFSET, (1, 2, 4)),
            (Code::TOO_LONG, (1, 2, 5)),
            (Code::UNTAGGED_VERSION, (1, 2, 6)),
            (Code::CRC, (2, 0, 2)),
            (Code::FPDU_LENGTH, (2, 0, 3)),
            (Code::INSUFFICIENT_IRD, (2, 0, 6)),
        ] {
            assert_eq!((layer, etype, code), expected);
        }
    }

    /// Code 255 (unspecified error) needs no description.
    #[test]
    fn only_codes_of_the_rfcs_are_known_and_all_are_described() {
        let known: [((u8, u8), &[u8]); 6] = [
            ((0, 1), &[0, 1, 2, 3, 4, 9, 0xff]),
            ((0, 2), &[5, 6, 7, 8, 9, 0xff]),
            ((1, 0), &[0]),
            ((1, 1), &[0, 1, 2, 3, 4]),
            ((1, 2), &[1, 2, 3, 4, 5, 6]),
            ((2, 0), &[1, 2, 3, 4, 5, 6, 7]),
        ];
        for (kind, number) in (0..16).flat_map(|kind| (0..=0xff).map(move |number| (kind, number))) {
            let (layer, etype) = (kind / 4, kind % 4);
            let code = Code { layer, etype, code: number };
            let is_listed =
                |(of, numbers): &((u8, u8), &[u8])| *of == (layer, etype) && numbers.contains(&number);
            let expected = (layer, etype) == (0, 0) || known.iter().any(is_listed);
            assert_eq!(code.is_known(), expected, "{code:?}");
            assert!(!expected || number == 0xff || code.meaning() != "unknown error", "{code:?}");
        }
        assert_eq!(Code::CRC.to_string(), "wrong CRC (layer 2, type 0, code 0x02)");
    }
}
