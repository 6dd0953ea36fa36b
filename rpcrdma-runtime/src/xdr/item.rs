use core::fmt;

use bytes::{Bytes, BytesMut};

/// A DDP-eligible item and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Offset of the item's first byte in the unreduced stream, a multiple of four (RFC 8166 section 3.4.5).
    pub position: u32,
    /// The item's bytes, without padding.
    pub data: Bytes,
}

/// Memory for a received item, supplied by the receiver.
pub trait ItemMemory: fmt::Debug + Send + Sync {
    /// Returns the memory as an empty buffer. Returns `None` while the buffer of an earlier call, or data
    /// that shares its memory, still exists.
    fn acquire(&self) -> Option<BytesMut>;
}
