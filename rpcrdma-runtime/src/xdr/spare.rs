//! Reuses the memory of a thread's messages.

use alloc::vec::Vec;
use core::mem;
use std::cell::RefCell;
use std::thread_local;

use bytes::{Bytes, BytesMut};

use super::Item;
use super::buffer::Buffer;

/// The size in bytes of the blocks that short messages share. Each of these messages keeps its whole block
/// alive.
const BLOCK: usize = 4096;
/// The maximum size in bytes of a message in a shared block. Longer messages have separate memory.
const SHORT: usize = BLOCK / 4;

/// The maximum capacity of a list that is stored for reuse.
const MAX_ITEMS: usize = 16;

#[derive(Default)]
struct Spare {
    buffer: Option<Buffer>,
    items: Vec<Item>,
    pieces: Vec<Bytes>,
    /// The block to which short messages are appended; `before` is the block used previously.
    block: BytesMut,
    before: BytesMut,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// Passes the spare memory of this thread to `f`, or new memory if the thread is ending.
#[inline]
fn with<R>(mut f: impl FnMut(&mut Spare) -> R) -> R {
    // `f` never calls `with`, so the memory is not borrowed twice.
    let result = SPARE.try_with(|spare| spare.try_borrow_mut().ok().map(|mut spare| f(&mut spare)));
    match result {
        Ok(Some(result)) => result,
        _ => f(&mut Spare::default()),
    }
}

pub(super) fn buffer() -> Buffer {
    with(|spare| spare.buffer.take()).unwrap_or_default()
}

/// Returns an empty list with memory for at least one item, because most messages have at most one item.
pub(super) fn items() -> Vec<Item> {
    let mut items = with(|spare| mem::take(&mut spare.items));
    items.reserve_exact(1);
    items
}

pub(crate) fn keep_items(mut items: Vec<Item>) {
    items.clear();
    if items.capacity() <= MAX_ITEMS {
        with(|spare| mem::swap(&mut spare.items, &mut items));
    }
}

pub(crate) fn pieces() -> Vec<Bytes> {
    with(|spare| mem::take(&mut spare.pieces))
}

pub(crate) fn keep_pieces(mut pieces: Vec<Bytes>) {
    pieces.clear();
    if (1..=MAX_ITEMS).contains(&pieces.capacity()) {
        with(|spare| mem::swap(&mut spare.pieces, &mut pieces));
    }
}

/// Returns the content of a buffer followed by a copy of `suffix`. A long message without a suffix takes over
/// the buffer's memory. In all other cases, this memory is stored for reuse.
pub(super) fn into_bytes(buffer: Buffer, suffix: &[u8]) -> Bytes {
    if suffix.is_empty() && buffer.len() > SHORT {
        return buffer.into_vec().into();
    }
    let mut buffer = Some(buffer);
    with(|spare| {
        let bytes = spare.copied([buffer.as_ref().map_or(&[], Buffer::as_slice), suffix]);
        if let Some(buffer) = &mut buffer {
            buffer.truncate(0);
        }
        mem::swap(&mut spare.buffer, &mut buffer);
        bytes
    })
}

/// Concatenates two pieces. Short copies share a block, which can be reused once all copies in the block are
/// dropped.
pub(crate) fn copied(pieces: [&[u8]; 2]) -> Bytes {
    with(|spare| spare.copied(pieces))
}

impl Spare {
    fn copied(&mut self, pieces: [&[u8]; 2]) -> Bytes {
        let len = pieces.iter().fold(0, |len, piece| piece.len().saturating_add(len));
        if len > SHORT {
            return pieces.concat().into();
        }
        if self.block.capacity() < len && !self.block.try_reclaim(BLOCK) {
            mem::swap(&mut self.block, &mut self.before);
            self.block.reserve(BLOCK);
        }
        pieces.iter().for_each(|piece| self.block.extend_from_slice(piece));
        self.block.split().freeze()
    }
}
