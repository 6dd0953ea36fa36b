//! Without the standard library, no memory is used again.

use alloc::vec::Vec;

use bytes::Bytes;

use super::Item;
use super::buffer::Buffer;

/// An empty buffer.
pub(super) fn buffer() -> Buffer {
    Buffer::default()
}

/// An empty list.
pub(super) fn items() -> Vec<Item> {
    Vec::new()
}

/// Takes the memory of a list.
pub(crate) fn keep_items(_: Vec<Item>) {}

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
