use core::fmt;

/// A range of a peer's registered memory (RFC 8166 section 3.4.3): a plain segment of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The handle (an STag or an R_key) under which the memory is registered.
    pub handle: u32,
    /// Length of the range in bytes.
    pub length: u32,
    /// Start of the range: an offset or an address. The accessing peer does not interpret this value: it only
    /// adds the distance from the start of the range.
    pub offset: u64,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}:{}@{:#x}", self.handle, self.length, self.offset)
    }
}
