//! The CRC32C of an FPDU (RFC 5044 section 4.4).

#[cfg_attr(not(feature = "std"), path = "crc/table.rs")]
mod digest;

use self::digest::Digest;

/// An incremental CRC32C. The CRC of an FPDU covers all octets before the CRC field, including markers.
///
/// With the `std` feature, the implementation uses dedicated processor instructions where available.
/// Otherwise, it uses a table.
#[derive(Clone)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Creates the checksum of an empty input.
    #[must_use]
    pub fn new() -> Self {
        Crc32c(digest::new())
    }

    /// Adds octets to the input.
    pub fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// Returns the checksum as a number.
    #[must_use]
    pub fn value(&self) -> u32 {
        digest::value(&self.0)
    }

    /// Returns the checksum in wire order: least significant octet first, unlike all other iWARP fields.
    #[must_use]
    pub fn octets(&self) -> [u8; 4] {
        self.value().to_le_bytes()
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c::new()
    }
}

impl core::fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Crc32c({:#010x})", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement: R424
    #[test]
    fn the_check_value_of_crc32c() {
        let mut crc = Crc32c::new();
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!(crc.value(), 0xe306_9283);
        assert_eq!(crc.octets(), [0x83, 0x92, 0x06, 0xe3]);
    }

    #[test]
    fn the_table_and_the_instructions_agree() {
        let table = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
        let octets: alloc::vec::Vec<u8> = (0..=255u8).cycle().take(5000).collect();
        for len in [0, 1, 3, 4, 7, 8, 63, 64, 1023, 5000] {
            for at in [0, 1, len / 2] {
                let (front, back) = octets[..len].split_at(at.min(len));
                let mut crc = Crc32c::new();
                crc.update(front);
                crc.update(back);
                assert_eq!(crc.value(), table.checksum(&octets[..len]), "{len} octets");
            }
        }
    }
}
