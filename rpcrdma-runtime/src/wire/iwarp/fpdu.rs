//! FPDUs: how MPA cuts the TCP stream into DDP segments (RFC 5044 section 4), without markers.
//!
//! A length of two octets, the ULPDU that it counts, zero octets up to a multiple of four, and four octets
//! of CRC, which are always there: zero and without meaning when no CRC was agreed on.

use super::crc::Crc32c;

/// Octets of the length field.
pub const LENGTH_LEN: usize = 2;
/// Octets of the CRC field.
pub const CRC_LEN: usize = 4;
/// The longest FPDU that can be, in octets.
pub const MAX_LEN: usize = LENGTH_LEN + u16::MAX as usize + 3 + CRC_LEN;
/// The shortest FPDU that a sender may be limited to, in octets (RFC 5044 section 4: a ULPDU of 128).
pub const MIN_LIMIT: usize = LENGTH_LEN + 128 + 2 + CRC_LEN;

/// Why octets are no FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FpduError {
    /// The CRC does not fit the content.
    #[error("the CRC of an FPDU is wrong")]
    Crc,
}

/// The length of the FPDU that begins with `octets`, once its length field is there.
#[must_use]
pub fn len(octets: &[u8]) -> Option<usize> {
    let (length, _) = octets.split_first_chunk()?;
    let ulpdu = usize::from(u16::from_be_bytes(*length));
    Some((LENGTH_LEN + CRC_LEN).saturating_add(ulpdu).saturating_add(padding(ulpdu)))
}

/// Zero octets behind a ULPDU of that length.
#[must_use]
pub const fn padding(ulpdu: usize) -> usize {
    ulpdu.wrapping_add(LENGTH_LEN).wrapping_neg() & 3
}

/// The ULPDU of an FPDU that is there whole: `octets` has the length that [`len`] said.
///
/// # Errors
/// [`FpduError::Crc`], if `crc` asks for it to be checked. Octets that are not all there count as such.
pub fn open(octets: &[u8], crc: bool) -> Result<&[u8], FpduError> {
    let (covered, sum) = octets.split_last_chunk::<CRC_LEN>().ok_or(FpduError::Crc)?;
    if crc {
        let mut computed = Crc32c::new();
        computed.update(covered);
        if computed.octets() != *sum {
            return Err(FpduError::Crc);
        }
    }
    let (length, rest) = covered.split_first_chunk().ok_or(FpduError::Crc)?;
    rest.get(..usize::from(u16::from_be_bytes(*length))).ok_or(FpduError::Crc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// RFC 5044 figures 5 and 6: a Send of 24 zero octets, first and second of a stream.
    fn figure(msn: u8) -> Vec<u8> {
        let mut fpdu = alloc::vec![0x00, 0x2a, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0];
        fpdu.extend([0; 24]);
        fpdu
    }

    fn sum(parts: &[&[u8]]) -> [u8; 4] {
        let mut crc = Crc32c::new();
        for part in parts {
            crc.update(part);
        }
        crc.octets()
    }

    #[test]
    fn sums_of_rfc_5044() {
        let five = figure(1);
        assert_eq!(sum(&[&[0; 4], &five]), [0x52, 0x23, 0x99, 0x83], "figure 5, with its marker");
        let six = figure(2);
        let (before, after) = six.split_at(20);
        assert_eq!(sum(&[before, &[0, 0, 0, 0x14], after]), [0x84, 0x92, 0x58, 0x98], "figure 6, the same");
        assert_eq!(sum(&[&five]), [0xb7, 0x24, 0x3e, 0xc3], "figure 5 without its marker");
    }

    #[test]
    fn an_fpdu_opens() {
        let mut fpdu = figure(1);
        fpdu.extend([0xb7, 0x24, 0x3e, 0xc3]);
        assert_eq!(len(&fpdu), Some(fpdu.len()));
        assert_eq!(open(&fpdu, true).unwrap(), &figure(1)[2..]);
        for at in 0..fpdu.len() {
            let mut bad = fpdu.clone();
            bad[at] ^= 0x10;
            assert_eq!(open(&bad, true), Err(FpduError::Crc), "octet {at} flipped");
        }
        *fpdu.last_mut().unwrap() = 0;
        assert!(open(&fpdu, false).is_ok(), "nobody looks at the field without CRCs");
    }

    #[test]
    fn padding_is_to_four_octets_and_is_not_counted() {
        for (ulpdu, pad) in [(0, 2), (1, 1), (2, 0), (3, 3), (42, 0), (65535, 3)] {
            assert_eq!(padding(ulpdu), pad, "{ulpdu}");
        }
        assert_eq!(len(&[0xff, 0xff]), Some(MAX_LEN));
        assert_eq!(len(&[0xff]), None);
    }
}
