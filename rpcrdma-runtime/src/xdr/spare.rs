//! Reuses the memory of a thread's messages.

use alloc::vec::Vec;
use core::mem;
use std::cell::Cell;
use std::thread_local;

use bytes::{Bytes, BytesMut};

use super::Item;
use super::buffer::Buffer;

/// The size of the blocks that short messages share. A stored message keeps its whole block alive.
const BLOCK: usize = 4096;
/// Longer messages have separate memory.
const SHORT: usize = BLOCK / 4;

/// The maximum capacity of a list of items that is kept.
const MAX_ITEMS: usize = 16;

#[derive(Default)]
struct Spare {
    buffer: Option<Buffer>,
    items: Vec<Item>,
    /// The block in use, and the preceding one.
    block: BytesMut,
    before: BytesMut,
}

thread_local! {
    static SPARE: Cell<Spare> = Cell::default();
}

/// Passes the spare memory of this thread to `f`, or new memory if the thread is ending.
fn with<R>(f: impl FnOnce(&mut Spare) -> R) -> R {
    let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
    let result = f(&mut spare);
    // At thread exit the memory is freed.
    let _ = SPARE.try_with(|cell| cell.set(spare));
    result
}

/// Returns an empty buffer.
pub(super) fn buffer() -> Buffer {
    with(|spare| spare.buffer.take()).unwrap_or_default()
}

/// Returns an empty list.
pub(super) fn items() -> Vec<Item> {
    with(|spare| mem::take(&mut spare.items))
}

/// Stores the memory of a list for reuse.
pub(crate) fn keep_items(mut items: Vec<Item>) {
    items.clear();
    if items.capacity() <= MAX_ITEMS {
        with(|spare| spare.items = items);
    }
}

/// Returns the content of a buffer followed by a copy of `behind`. The buffer's memory is reused unless it
/// holds a long message.
pub(super) fn into_bytes(mut buffer: Buffer, behind: &[u8]) -> Bytes {
    if behind.is_empty() && buffer.len() > SHORT {
        return buffer.into_vec().into();
    }
    let bytes = copied([buffer.as_slice(), behind]);
    buffer.truncate(0);
    with(|spare| spare.buffer = Some(buffer));
    bytes
}

/// Returns a copy of two consecutive pieces. Short copies share a block, which is reused once none of its
/// copies is left.
pub(crate) fn copied(pieces: [&[u8]; 2]) -> Bytes {
    let len = pieces.iter().fold(0, |len, piece| piece.len().saturating_add(len));
    if len > SHORT {
        return pieces.concat().into();
    }
    with(|spare| {
        if spare.block.capacity() < len && !spare.block.try_reclaim(BLOCK) {
            mem::swap(&mut spare.block, &mut spare.before);
            spare.block.reserve(BLOCK);
        }
        pieces.iter().for_each(|piece| spare.block.extend_from_slice(piece));
        spare.block.split().freeze()
    })
}
