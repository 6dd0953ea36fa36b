//! Memory of a thread's messages, for its next ones.

use alloc::vec::Vec;
use core::mem;
use std::cell::Cell;
use std::thread_local;

use bytes::{Bytes, BytesMut};

use super::Item;
use super::buffer::Buffer;

/// Short messages share blocks of memory of this size. A message that is kept keeps its whole block.
const BLOCK: usize = 4096;
/// Longer messages have memory of their own.
const SHORT: usize = BLOCK / 4;

/// The longest list of items that is kept.
const MAX_ITEMS: usize = 16;

#[derive(Default)]
struct Spare {
    buffer: Option<Buffer>,
    items: Vec<Item>,
    /// The block that is being filled, and the one before it.
    block: BytesMut,
    before: BytesMut,
}

thread_local! {
    static SPARE: Cell<Spare> = Cell::default();
}

/// Gives the spare memory of this thread to `f`, or new memory if the thread ends.
fn with<R>(f: impl FnOnce(&mut Spare) -> R) -> R {
    let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
    let result = f(&mut spare);
    // At a thread's end it is freed.
    let _ = SPARE.try_with(|cell| cell.set(spare));
    result
}

/// An empty buffer.
pub(super) fn buffer() -> Buffer {
    with(|spare| spare.buffer.take()).unwrap_or_default()
}

/// An empty list.
pub(super) fn items() -> Vec<Item> {
    with(|spare| mem::take(&mut spare.items))
}

/// Takes the memory of a list.
pub(crate) fn keep_items(mut items: Vec<Item>) {
    items.clear();
    if items.capacity() <= MAX_ITEMS {
        with(|spare| spare.items = items);
    }
}

/// What a buffer holds, and a copy of `behind` behind it. The buffer's memory is used again unless it holds a
/// long message.
pub(super) fn into_bytes(mut buffer: Buffer, behind: &[u8]) -> Bytes {
    if behind.is_empty() && buffer.len() > SHORT {
        return buffer.into_vec().into();
    }
    let bytes = copied([buffer.as_slice(), behind]);
    buffer.truncate(0);
    with(|spare| spare.buffer = Some(buffer));
    bytes
}

/// A copy of two pieces, one behind the other. Short ones take no memory of their own: a block is used again
/// once nothing of what was copied there is left.
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
