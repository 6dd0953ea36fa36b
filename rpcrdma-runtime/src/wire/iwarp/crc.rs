/// CRC32C as MPA uses it (RFC 5044 section 4.4), over pieces.
///
/// On the wire its least significant byte comes first.
#[derive(Clone, Debug)]
pub struct Crc32c(State);

#[cfg(feature = "std")]
type State = u32;
#[cfg(not(feature = "std"))]
type State = crc::Digest<'static, u32>;

#[cfg(not(feature = "std"))]
static TABLE: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

impl Crc32c {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(feature = "std")]
        return Crc32c(0);
        #[cfg(not(feature = "std"))]
        return Crc32c(TABLE.digest());
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        #[cfg(feature = "std")]
        {
            self.0 = crc32c::crc32c_append(self.0, bytes);
        }
        #[cfg(not(feature = "std"))]
        self.0.update(bytes);
    }

    /// The sum.
    #[must_use]
    pub fn finish(self) -> u32 {
        #[cfg(feature = "std")]
        return self.0;
        #[cfg(not(feature = "std"))]
        return self.0.finalize();
    }

    /// The sum of one piece.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        let mut sum = Crc32c::new();
        sum.update(bytes);
        sum.finish()
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value() {
        assert_eq!(Crc32c::of(b"123456789"), 0xe306_9283);
        let mut pieces = Crc32c::new();
        pieces.update(b"1234");
        pieces.update(b"56789");
        assert_eq!(pieces.finish(), 0xe306_9283);
    }
}
