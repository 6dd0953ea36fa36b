//! Without the standard library, no memory is used again.

use bytes::Bytes;

use super::buffer::Buffer;

/// An empty buffer.
pub(super) fn buffer() -> Buffer {
    Buffer::default()
}

/// What a buffer holds, and a copy of `behind` behind it.
pub(super) fn into_bytes(buffer: Buffer, behind: &[u8]) -> Bytes {
    let mut bytes = buffer.into_vec();
    bytes.extend_from_slice(behind);
    bytes.into()
}

/// A copy of two pieces, one behind the other.
pub(crate) fn copied(pieces: [&[u8]; 2]) -> Bytes {
    pieces.concat().into()
}
