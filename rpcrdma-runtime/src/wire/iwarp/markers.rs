//! MPA markers (RFC 5044 section 4.3). In each direction with markers, a four-octet marker starts at every
//! 512th octet. The first marker directly follows the MPA frame. A marker contains the distance to the start
//! of its FPDU.
//!
//! A receiver requests markers in its MPA frame. A marker directly before or inside an FPDU belongs to this
//! FPDU, whose CRC covers the marker.

use alloc::vec::Vec;

use super::fpdu::{self, FpduError, MARKER_LEN as LEN};

/// Distance between the first octets of consecutive markers, in octets.
pub const INTERVAL: usize = 512;

/// The position in one direction of a stream, relative to markers and FPDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Markers {
    /// Octets since the start of the last marker, or 0 if a marker is due at the current position.
    at: usize,
    /// Octets since [`Markers::start`], excluding a marker before the length field.
    since: usize,
}

impl Markers {
    /// Returns the maximum total size of the markers in `octets` octets of the stream.
    #[must_use]
    pub const fn max_size(octets: usize) -> usize {
        octets.div_ceil(INTERVAL).saturating_mul(LEN)
    }

    /// Returns the size of the FPDU at the start of `octets`, including markers. Returns `None` if its length
    /// field is incomplete.
    #[must_use]
    pub fn fpdu_len(&self, octets: &[u8]) -> Option<usize> {
        let len = fpdu::len(octets.get(self.length_at()..)?)?;
        let markers = len.saturating_sub(self.gap()).div_ceil(INTERVAL - LEN);
        Some(len.saturating_add(markers.saturating_mul(LEN)))
    }

    /// Returns the offset of the length field in the next FPDU, which may start with a marker.
    #[must_use]
    pub const fn length_at(&self) -> usize {
        if self.at == 0 { LEN } else { 0 }
    }

    /// Sets the current position as the start of an FPDU.
    pub fn start(&mut self) {
        self.since = 0;
    }

    /// If a marker is due at the current position, returns the marker and advances past it.
    pub fn due(&mut self) -> Option<[u8; LEN]> {
        if self.at != 0 {
            return None;
        }
        // The distance fits into 16 bits, because senders never create FPDUs of 64 KiB or more.
        let distance = u16::try_from(self.since).unwrap_or(u16::MAX);
        self.pass_marker();
        let [high, low] = distance.to_be_bytes();
        Some([0, 0, high, low])
    }

    /// Splits octets at the position of the next marker, and advances past the first part. Call this method
    /// only if no marker is due at the current position.
    pub fn split<'a>(&mut self, octets: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let (piece, rest) = octets.split_at_checked(self.gap()).unwrap_or((octets, &[]));
        self.skip(piece.len());
        (piece, rest)
    }

    /// Advances by a number of octets, for example past a complete FPDU.
    pub fn skip(&mut self, octets: usize) {
        self.since = self.since.saturating_add(octets);
        self.at = self.at.wrapping_add(octets) % INTERVAL;
    }

    /// Removes the markers from a complete FPDU, and appends the result to `plain`. The size of `fpdu` must
    /// be the size that [`Markers::fpdu_len`] returned.
    ///
    /// # Errors
    /// - [`FpduError::Crc`] if `crc` is set and the CRC does not match.
    /// - [`FpduError::Marker`] if a marker does not point to the start of the FPDU.
    pub fn remove(&mut self, fpdu: &[u8], crc: bool, plain: &mut Vec<u8>) -> Result<(), FpduError> {
        fpdu::check(fpdu, crc)?;
        self.start();
        let mut rest = fpdu;
        while !rest.is_empty() {
            if self.at == 0 {
                let (marker, after) = rest.split_first_chunk::<LEN>().ok_or(FpduError::Marker)?;
                let [_, _, high, low] = *marker;
                // The first two octets and the lowest two bits of a marker are reserved.
                if usize::from(u16::from_be_bytes([high, low]) & !3) != self.since {
                    return Err(FpduError::Marker);
                }
                self.pass_marker();
                rest = after;
            }
            let (piece, after) = self.split(rest);
            plain.extend_from_slice(piece);
            rest = after;
        }
        Ok(())
    }

    /// Returns the number of octets before the next marker.
    const fn gap(&self) -> usize {
        if self.at == 0 { 0 } else { INTERVAL.saturating_sub(self.at) }
    }

    /// Moves past a marker. The distances in later markers do not include a marker before the length field.
    fn pass_marker(&mut self) {
        self.since = if self.since == 0 { 0 } else { self.since.saturating_add(LEN) };
        self.at = LEN;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Crc32c;
    use super::*;

    /// Returns a stream position, the FPDU at this position with its markers, and the same FPDU without
    /// markers. `at` is [`Markers::at`] at the position, and `ulpdu` is the size of the ULPDU in octets.
    fn marked(at: usize, ulpdu: usize) -> (Markers, Vec<u8>, Vec<u8>) {
        let start = Markers { at, since: 0 };
        let mut markers = start;
        let mut plain = u16::try_from(ulpdu).unwrap().to_be_bytes().to_vec();
        plain.extend((0..ulpdu).map(|octet| u8::try_from(octet % 251).unwrap()));
        plain.resize(plain.len() + fpdu::padding(ulpdu), 0);
        let mut octets = Vec::new();
        let mut rest = &plain[..];
        while !rest.is_empty() {
            octets.extend(markers.due().into_iter().flatten());
            let (piece, after) = markers.split(rest);
            octets.extend_from_slice(piece);
            rest = after;
        }
        octets.extend(markers.due().into_iter().flatten());
        let mut crc = Crc32c::new();
        crc.update(&octets);
        octets.extend(crc.octets());
        plain.extend(crc.octets());
        (start, octets, plain)
    }

    /// RFC 5044 figures 5 and 6: a Send of 24 zero octets at the start of a stream, and at octet 492.
    ///
    /// Requirement: R412
    #[test]
    fn markers_of_rfc_5044() {
        for (before, msn, marker_at, marker, crc) in [
            (0, 1, 0, [0, 0, 0, 0], [0x52, 0x23, 0x99, 0x83]),
            (492, 2, 20, [0, 0, 0, 0x14], [0x84, 0x92, 0x58, 0x98]),
        ] {
            let mut plain = [0; 44];
            plain[..4].copy_from_slice(&[0, 0x2a, 0x41, 0x43]);
            plain[15] = msn;
            let mut octets = plain.to_vec();
            octets.splice(marker_at..marker_at, marker);
            octets.extend(crc);
            let mut markers = Markers::default();
            markers.skip(before);
            assert_eq!(markers.fpdu_len(&octets), Some(octets.len()));
            let mut found = Vec::new();
            markers.remove(&octets, true, &mut found).unwrap();
            assert_eq!(found, [&plain[..], &crc].concat());
        }
    }

    /// Requirement: R413, R414, R901, R904
    #[test]
    fn markers_at_every_position_of_an_fpdu_are_removed() {
        for at in (0..INTERVAL).step_by(4) {
            for ulpdu in [1, 14, 18, 42, 500, 501, 502, 503, 1010, 1440, 2033] {
                let (start, octets, plain) = marked(at, ulpdu);
                assert_eq!(start.fpdu_len(&octets), Some(octets.len()), "{at}, {ulpdu}");
                let first = if at == 0 { 0 } else { INTERVAL - at };
                assert_eq!(
                    octets.len() - plain.len(),
                    octets.len().saturating_sub(first).div_ceil(INTERVAL) * LEN
                );
                for position in (first..octets.len()).step_by(INTERVAL) {
                    let distance = if position == 0 { 0 } else { position - if at == 0 { LEN } else { 0 } };
                    assert_eq!(
                        octets[position..position + LEN],
                        u32::try_from(distance).unwrap().to_be_bytes()
                    );
                    let mut reserved = octets.clone();
                    reserved[position] = 0xff;
                    reserved[position + 3] |= 3;
                    let mut found = Vec::new();
                    assert_eq!(start.clone().remove(&reserved, false, &mut found), Ok(()), "reserved bits");
                    assert_eq!(found, plain);
                    let mut wrong = octets.clone();
                    wrong[position + 3] ^= 4;
                    let refused = |crc| start.clone().remove(&wrong, crc, &mut Vec::new());
                    assert_eq!(refused(true), Err(FpduError::Crc), "the CRC covers the markers");
                    assert_eq!(refused(false), Err(FpduError::Marker));
                }
                let mut found = Vec::new();
                let mut markers = start;
                markers.remove(&octets, true, &mut found).unwrap();
                assert_eq!((found, markers.at), (plain, (at + octets.len()) % INTERVAL));
            }
        }
    }

    #[test]
    fn the_length_field_may_be_incomplete() {
        let fresh = Markers::default();
        for len in 0..6 {
            assert_eq!(fresh.fpdu_len(&[0; 6][..len]), None);
        }
        assert_eq!(fresh.fpdu_len(&[0; 6]), Some(12));
        let mut later = fresh;
        later.skip(508);
        assert_eq!((later.fpdu_len(&[0]), later.fpdu_len(&[0, 2])), (None, Some(12)));
    }
}
