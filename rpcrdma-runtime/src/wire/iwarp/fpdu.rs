use super::Crc32c;

/// The largest ULPDU: its length is 16 bits.
pub const MAX_ULPDU: usize = 65_535;
const LENGTH: usize = 2;
const CRC: usize = 4;

/// What is wrong with an FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FpduError {
    /// Its ULPDU is shorter than any DDP header.
    TooShort,
    /// Its CRC is wrong.
    Crc,
}

/// Padding and CRC, which stand behind a ULPDU (RFC 5044 section 4.3, 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    bytes: [u8; 3 + CRC],
    pad: usize,
}

impl Trailer {
    /// The trailer of a ULPDU that is given in pieces, its length field first. Without a CRC the field is zero.
    #[must_use]
    pub fn new(pieces: &[&[u8]], crc: bool) -> Self {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let pad = len.wrapping_neg() & 3;
        let mut bytes = [0; 3 + CRC];
        if crc {
            let mut sum = Crc32c::new();
            pieces.iter().for_each(|piece| sum.update(piece));
            sum.update(bytes.split_at(pad).0);
            for (slot, byte) in bytes.iter_mut().skip(pad).zip(sum.finish().to_le_bytes()) {
                *slot = byte;
            }
        }
        Trailer { bytes, pad }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.pad.saturating_add(CRC)).unwrap_or(&self.bytes)
    }
}

/// The first FPDU of a stream: its ULPDU and how many bytes it takes in all. Nothing if it is not whole yet.
///
/// # Errors
/// [`FpduError`]; the stream cannot be read further then.
pub fn next_fpdu(stream: &[u8], crc: bool) -> Result<Option<(&[u8], usize)>, FpduError> {
    let Some((length, rest)) = stream.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes(*length));
    if len < super::TAGGED_LEN {
        return Err(FpduError::TooShort);
    }
    let pad = len.wrapping_add(LENGTH).wrapping_neg() & 3;
    let Some((ulpdu, rest)) = rest.split_at_checked(len) else { return Ok(None) };
    let Some((padding, rest)) = rest.split_at_checked(pad) else { return Ok(None) };
    let Some((sum, _)) = rest.split_first_chunk::<CRC>() else { return Ok(None) };
    if crc {
        let mut expected = Crc32c::new();
        expected.update(length);
        expected.update(ulpdu);
        expected.update(padding);
        if expected.finish() != u32::from_le_bytes(*sum) {
            return Err(FpduError::Crc);
        }
    }
    Ok(Some((ulpdu, LENGTH.saturating_add(len).saturating_add(pad).saturating_add(CRC))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The FPDU of RFC 5044 figure 5: an untagged segment with 24 bytes of payload.
    fn figure_5() -> Vec<u8> {
        let mut ulpdu = vec![0x00, 0x2a, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        ulpdu.extend([0; 24]);
        ulpdu
    }

    #[test]
    fn without_its_marker_the_first_figure_of_rfc_5044_sums_to_b7243ec3() {
        assert_eq!(Trailer::new(&[&figure_5()], true).as_slice(), [0xb7, 0x24, 0x3e, 0xc3]);
    }

    #[test]
    fn with_their_markers_the_figures_of_rfc_5044_sum_as_printed() {
        // A marker that points at the FPDU's start goes before the length; MPA sums it too.
        let first: Vec<u8> = [[0; 4].to_vec(), figure_5()].concat();
        assert_eq!(Crc32c::of(&first).to_le_bytes(), [0x52, 0x23, 0x99, 0x83]);
        // The second FPDU of the stream: message 2, with a marker between header and payload that points back 20.
        let mut second = figure_5();
        second[15] = 2;
        second.splice(20..20, [0, 0, 0, 20]);
        assert_eq!(Crc32c::of(&second).to_le_bytes(), [0x84, 0x92, 0x58, 0x98]);
    }

    #[test]
    fn every_truncation_waits_and_every_flipped_bit_is_found() {
        let ulpdu: Vec<u8> = (0..37).collect();
        let mut wire = vec![0, 37];
        wire.extend(&ulpdu);
        let trailer = Trailer::new(&[&wire.clone()], true);
        wire.extend(trailer.as_slice());
        assert_eq!(wire.len() % 4, 0);
        assert_eq!(next_fpdu(&wire, true), Ok(Some((&ulpdu[..], wire.len()))));
        for len in 0..wire.len() {
            assert_eq!(next_fpdu(&wire[..len], true), Ok(None), "{len}");
        }
        for bit in 16..wire.len() * 8 {
            let mut bad = wire.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(next_fpdu(&bad, true), Err(FpduError::Crc), "bit {bit}");
        }
    }

    #[test]
    fn h51_a_length_below_any_header_is_refused_at_once() {
        for len in 0..14u8 {
            assert_eq!(next_fpdu(&[0, len], false), Err(FpduError::TooShort));
        }
        assert_eq!(next_fpdu(&[0, 14], false), Ok(None));
    }
}
