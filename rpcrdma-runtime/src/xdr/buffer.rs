use alloc::vec::Vec;

use super::pad_len;

/// A growable byte buffer. Bytes that truncation removes stay initialized, so later writes overwrite them in
/// place.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// The written bytes, followed by initialized bytes that may be overwritten.
    bytes: Vec<u8>,
    /// The number of written bytes, at most the length of `bytes`.
    len: usize,
}

/// The default capacity in bytes, enough for most messages without their bulk data.
const FIRST: usize = 256;

impl Default for Buffer {
    /// Returns an empty buffer with initialized memory, so that [`Buffer::room`] succeeds.
    fn default() -> Self {
        Buffer { bytes: alloc::vec![0; FIRST], len: 0 }
    }
}

impl Buffer {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Buffer { bytes: Vec::with_capacity(capacity), len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub(super) fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.len);
        self.bytes
    }

    /// Appends `len` initialized bytes of unspecified content for the caller to overwrite. Returns `None` if
    /// fewer bytes after the content are initialized.
    #[inline]
    pub(super) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let (start, end) = (self.len, self.len.checked_add(len)?);
        let room = self.bytes.get_mut(start..end)?;
        self.len = end;
        Some(room)
    }

    /// Returns the initialized memory after the content. [`Buffer::advance`] makes bytes written there part
    /// of the content.
    #[inline]
    pub(super) fn ahead(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.len..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.len = self.len.saturating_add(len).min(self.bytes.len());
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        match self.room(bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                self.bytes.truncate(self.len);
                self.bytes.extend_from_slice(bytes);
                self.len = self.bytes.len();
            }
        }
    }

    #[inline]
    pub(super) fn put_padded(&mut self, data: &[u8]) {
        let pad = pad_len(data.len());
        match self.room(data.len().saturating_add(pad)) {
            Some(room) => fill_padded(room, data),
            None => self.append(data, pad),
        }
    }

    /// Appends the first `len` bytes of `data` and their zero padding up to the next multiple of four. If
    /// there is room, copies all of `data`: its length is a constant at the call sites, and a copy of
    /// constant length is faster.
    #[inline]
    pub(super) fn put_first(&mut self, data: &[u8], len: usize) {
        let len = len.min(data.len());
        let pad = pad_len(len);
        let Some((front, _)) = self.ahead().split_at_mut_checked(data.len().saturating_add(4)) else {
            return self.append(data.get(..len).unwrap_or(data), pad);
        };
        fill_first(front, data, len);
        self.advance(len.saturating_add(pad));
    }

    #[inline(never)]
    fn append(&mut self, data: &[u8], pad: usize) {
        self.bytes.truncate(self.len);
        self.bytes.reserve(data.len().saturating_add(pad));
        self.bytes.extend_from_slice(data);
        self.bytes.extend_from_slice([0; 3].split_at_checked(pad).unwrap_or_default().0);
        self.len = self.bytes.len();
    }
}

/// Fills `room` with `data` and its padding. `room` has the padded length of `data`.
#[inline(always)]
pub(super) fn fill_padded(room: &mut [u8], data: &[u8]) {
    // First clears the last word, which contains all padding. The data overwrites its other bytes.
    if let Some(word) = room.last_chunk_mut::<4>() {
        *word = [0; 4];
    }
    if let Some((front, _)) = room.split_at_mut_checked(data.len()) {
        front.copy_from_slice(data);
    }
}

/// Copies all of `data`, because a copy of constant length is faster. Then zeroes the word after the first
/// `len` bytes, which contains the padding. `room` is four bytes longer than `data`.
#[inline(always)]
pub(super) fn fill_first(room: &mut [u8], data: &[u8], len: usize) {
    if let Some((all, _)) = room.split_at_mut_checked(data.len()) {
        all.copy_from_slice(data);
    }
    if let Some(word) = room.get_mut(len..).and_then(|excess| excess.first_chunk_mut()) {
        *word = [0; 4];
    }
}
