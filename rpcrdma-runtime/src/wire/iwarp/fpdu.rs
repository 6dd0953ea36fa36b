//! FPDUs: the frames in which MPA sends DDP segments over TCP (RFC 5044 section 4).
//! [`Markers`](super::Markers) adds and removes markers.
//!
//! An FPDU consists of a two-octet length, the ULPDU (the DDP segment), padding to a multiple of four octets,
//! and a four-octet CRC. The CRC field is always present. If the peers do not use CRCs, its value is ignored.

use super::crc::Crc32c;

/// Size of the length field in octets.
pub const LENGTH_LEN: usize = 2;
/// Size of the CRC field in octets.
pub const CRC_LEN: usize = 4;
/// Size of a marker in octets.
pub const MARKER_LEN: usize = 4;
/// Maximum size of an FPDU in octets, without markers.
pub const MAX_LEN: usize = LENGTH_LEN + u16::MAX as usize + 3 + CRC_LEN;
/// The lowest limit that a sender applies to the size of its FPDUs, in octets without markers. It admits a
/// ULPDU of 128 octets.
pub const MIN_LIMIT: usize = LENGTH_LEN + 128 + 2 + CRC_LEN;

/// The reason why octets are not a valid FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FpduError {
    /// The CRC does not match the content.
    #[error("the CRC of an FPDU is wrong")]
    Crc,
    /// A marker does not point to the start of its FPDU.
    #[error("an MPA marker does not point to the start of its FPDU")]
    Marker,
}

/// Returns the size of the FPDU at the start of `octets`, or `None` if its length field is incomplete.
#[must_use]
pub fn len(octets: &[u8]) -> Option<usize> {
    let (length, _) = octets.split_first_chunk()?;
    let ulpdu = usize::from(u16::from_be_bytes(*length));
    Some((LENGTH_LEN + CRC_LEN).saturating_add(ulpdu).saturating_add(padding(ulpdu)))
}

/// Returns the number of padding octets after a ULPDU of `ulpdu` octets.
#[must_use]
pub const fn padding(ulpdu: usize) -> usize {
    ulpdu.wrapping_add(LENGTH_LEN).wrapping_neg() & 3
}

/// Returns the ULPDU of a complete FPDU. The size of `octets` must be the size that [`len`] returned.
///
/// # Errors
/// [`FpduError::Crc`] if `crc` is set and the CRC does not match, or if `octets` is incomplete.
pub fn open(octets: &[u8], crc: bool) -> Result<&[u8], FpduError> {
    let covered = check(octets, crc)?;
    let (length, rest) = covered.split_first_chunk().ok_or(FpduError::Crc)?;
    rest.get(..usize::from(u16::from_be_bytes(*length))).ok_or(FpduError::Crc)
}

pub(super) fn check(octets: &[u8], crc: bool) -> Result<&[u8], FpduError> {
    let (covered, sum) = octets.split_last_chunk::<CRC_LEN>().ok_or(FpduError::Crc)?;
    if crc {
        let mut computed = Crc32c::new();
        computed.update(covered);
        if computed.octets() != *sum {
            return Err(FpduError::Crc);
        }
    }
    Ok(covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Returns the FPDU of RFC 5044 figure 5 (`msn` 1) or figure 6 (`msn` 2), without its marker and CRC.
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

    /// Requirement: R418, R424, R425, R505
    #[test]
    fn crcs_of_rfc_5044() {
        let five = figure(1);
        assert_eq!(sum(&[&[0; 4], &five]), [0x52, 0x23, 0x99, 0x83], "figure 5, with its marker");
        let six = figure(2);
        let (before, after) = six.split_at(20);
        assert_eq!(
            sum(&[before, &[0, 0, 0, 0x14], after]),
            [0x84, 0x92, 0x58, 0x98],
            "figure 6, with its marker"
        );
        assert_eq!(sum(&[&five]), [0xb7, 0x24, 0x3e, 0xc3], "figure 5 without its marker");
    }

    /// Requirement: R409, R417, R425, R505
    #[test]
    fn a_valid_fpdu_opens() {
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
        assert!(open(&fpdu, false).is_ok(), "without CRCs, the CRC field is ignored");
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
