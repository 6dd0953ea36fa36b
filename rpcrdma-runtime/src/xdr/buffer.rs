use alloc::vec::Vec;

use super::pad_len;

/// Bytes that grow at their end. No memory gets values before those that it is taken for: what is put where there is none
/// is appended. Memory that was written before, and then forgotten, is written to in place.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// What was written, and behind it what was forgotten.
    bytes: Vec<u8>,
    /// How much of it was written; at most all.
    len: usize,
}

/// How much memory is taken at first, if nobody says how much: most messages fit into it, less their data.
const FIRST: usize = 256;

impl Default for Buffer {
    fn default() -> Self {
        Buffer::with_capacity(FIRST)
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

    /// The next `len` bytes, which are written by whoever asks, if that much was forgotten. Until then they are anything.
    #[inline]
    pub(super) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let (start, end) = (self.len, self.len.checked_add(len)?);
        let room = self.bytes.get_mut(start..end)?;
        self.len = end;
        Some(room)
    }

    /// All that was forgotten. What is written there counts with [`Buffer::advance`].
    #[inline]
    pub(super) fn ahead(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.len..).unwrap_or_default()
    }

    /// Moves the end over bytes that were written [`Buffer::ahead`].
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

    /// Data, and zeros up to the next multiple of four.
    #[inline]
    pub(super) fn put_padded(&mut self, data: &[u8]) {
        let pad = pad_len(data.len());
        let Some(room) = self.room(data.len().saturating_add(pad)) else { return self.append(data, pad) };
        // Padding is in the last word, of which the data then takes what is not.
        if let Some(word) = room.last_chunk_mut::<4>() {
            *word = [0; 4];
        }
        if let Some((front, _)) = room.split_at_mut_checked(data.len()) {
            front.copy_from_slice(data);
        }
    }

    /// The first `len` bytes of `data`, and zeros up to the next multiple of four. Moves all of `data` where there is
    /// room: its length is a constant where this is called, and `len` is not.
    #[inline]
    pub(super) fn put_first(&mut self, data: &[u8], len: usize) {
        let len = len.min(data.len());
        let pad = pad_len(len);
        let Some((front, _)) = self.ahead().split_at_mut_checked(data.len().saturating_add(4)) else {
            return self.append(data.get(..len).unwrap_or(data), pad);
        };
        if let Some((all, _)) = front.split_at_mut_checked(data.len()) {
            all.copy_from_slice(data);
        }
        // Padding goes as a whole word over what was too much.
        if let Some(word) = front.get_mut(len..).and_then(|behind| behind.first_chunk_mut()) {
            *word = [0; 4];
        }
        self.advance(len.saturating_add(pad));
    }

    /// Data and so many zeros behind all memory that has values.
    #[inline(never)]
    fn append(&mut self, data: &[u8], pad: usize) {
        self.bytes.truncate(self.len);
        self.bytes.reserve(data.len().saturating_add(pad));
        self.bytes.extend_from_slice(data);
        self.bytes.extend_from_slice([0; 3].split_at_checked(pad).unwrap_or_default().0);
        self.len = self.bytes.len();
    }
}
