//! Allocates new memory for each message, for builds without the standard library. With the standard library,
//! `spare.rs` reuses memory.

use alloc::vec::Vec;

use bytes::Bytes;

use super::Item;
use super::buffer::Buffer;

pub(super) fn buffer() -> Buffer {
    Buffer::default()
}

pub(super) fn items() -> Vec<Item> {
    Vec::new()
}

pub(crate) fn keep_items(_: Vec<Item>) {}

pub(crate) fn pieces() -> Vec<Bytes> {
    Vec::new()
}

pub(crate) fn keep_pieces(_: Vec<Bytes>) {}

pub(super) fn into_bytes(buffer: Buffer, suffix: &[u8]) -> Bytes {
    let mut bytes = buffer.into_vec();
    bytes.extend_from_slice(suffix);
    bytes.into()
}

pub(crate) fn copied(pieces: [&[u8]; 2]) -> Bytes {
    pieces.concat().into()
}
