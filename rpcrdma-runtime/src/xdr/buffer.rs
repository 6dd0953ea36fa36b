use alloc::vec::Vec;

use super::pad_len;

/// Bytes that grow at their end. The memory behind the end has values already, so that writing there is one check and
/// then plain stores.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// What was written, and behind it memory for more.
    bytes: Vec<u8>,
    /// How much of it was written; at most all.
    len: usize,
}

/// How much memory gets values when there is none for a short run of bytes.
const AHEAD: usize = 512;

/// How many bytes behind the end may be written in passing when little is written.
const PASSING: usize = 64;

impl Buffer {
    /// With room for `capacity` bytes and for what is written behind them in passing: padding goes as a whole word.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Buffer { bytes: Vec::with_capacity(capacity.saturating_add(PASSING)), len: 0 }
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

    /// The next `len` bytes, which are written by whoever asks: until then they are anything.
    #[inline]
    pub(super) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let (start, end) = (self.len, self.len.checked_add(len)?);
        if end > self.bytes.len() {
            self.grow(end);
        }
        let room = self.bytes.get_mut(start..end)?;
        self.len = end;
        Some(room)
    }

    /// What is behind the end and has values already; what is written there counts with [`Buffer::advance`]. Takes no
    /// more memory for it.
    #[inline]
    pub(super) fn ahead(&mut self) -> &mut [u8] {
        let end = self.len.saturating_add(AHEAD).min(self.bytes.capacity());
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        self.bytes.get_mut(self.len..).unwrap_or_default()
    }

    /// Moves the end over bytes that were written [`Buffer::ahead`].
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.len = self.len.saturating_add(len).min(self.bytes.len());
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        if bytes.len() <= AHEAD
            && let Some(room) = self.room(bytes.len())
        {
            room.copy_from_slice(bytes);
        } else {
            self.put_long(bytes);
        }
    }

    /// Data, and zeros up to the next multiple of four.
    #[inline]
    pub(super) fn put_padded(&mut self, data: &[u8]) {
        self.put(data);
        self.pad(data.len());
    }

    /// The first `len` bytes of `data`, and zeros up to the next multiple of four. Moves all of `data`: its length is a
    /// constant where this is called, and `len` is not.
    #[inline]
    pub(super) fn put_first(&mut self, data: &[u8], len: usize) {
        let len = len.min(data.len());
        let end = self.len.saturating_add(len);
        self.put(data);
        self.len = end;
        self.pad(len);
    }

    #[inline]
    fn pad(&mut self, len: usize) {
        let end = self.len.saturating_add(pad_len(len));
        // Always a word, to do without a branch. What is too much of it is behind the end again.
        self.put(&[0; 4]);
        self.len = end;
    }

    /// Long data is appended, not written over zeros.
    #[inline(never)]
    fn put_long(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.len);
        self.bytes.extend_from_slice(bytes);
        self.len = self.bytes.len();
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.reserve(end.saturating_sub(self.bytes.len()));
        let ahead = end.saturating_add(AHEAD).min(self.bytes.capacity());
        self.bytes.resize(ahead.max(end), 0);
    }
}
