use alloc::vec::Vec;

use bytes::Bytes;

use super::buffer::Buffer;
use super::{Encode, Error, ErrorKind, pad_len, spare};

/// Where encodings go. `put` takes bytes as they are; padding is the caller's.
pub trait Sink {
    /// Appends bytes.
    ///
    /// # Errors
    /// What the sink refuses. Those of this module refuse nothing.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Appends `len` bytes that are written afterwards, all of them, through what is returned: so the room for many
    /// values is made once. A sink that has no such room to give returns none, and gets the values otherwise.
    #[inline]
    fn room(&mut self, _len: usize) -> Option<&mut [u8]> {
        None
    }

    /// Memory behind the end that may be written at will: as much of it as was told to [`Sink::advance`] is appended. So
    /// values of any length are written without asking for room each time. A sink that has no such memory gives none.
    #[inline]
    fn ahead(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Appends the first `len` bytes of what [`Sink::ahead`] gave.
    #[inline]
    fn advance(&mut self, _len: usize) {}

    /// Whether short values that belong together are best written side by side elsewhere, and then put at once, where
    /// there is neither [`Sink::room`] nor memory [`Sink::ahead`].
    #[doc(hidden)]
    #[inline]
    fn stages(&self) -> bool {
        false
    }

    /// Whether what comes goes nowhere, so that it need not come.
    #[doc(hidden)]
    #[inline]
    fn is_full(&self) -> bool {
        false
    }

    /// Offset of the next byte in the unreduced stream.
    fn position(&self) -> u64;

    /// Appends a DDP-eligible item, whose count has been put already. A sink that reduces takes the item
    /// out of the stream; the others copy it and pad.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] from a sink that reduces, if the position does not fit 32 bits.
    fn put_item(&mut self, item: &Bytes) -> Result<(), Error> {
        self.put_padded(item)
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// As [`Sink::put`].
    #[inline]
    fn put_u32(&mut self, value: u32) -> Result<(), Error> {
        self.put(&value.to_be_bytes())
    }

    /// An unsigned hyper.
    ///
    /// # Errors
    /// As [`Sink::put`].
    #[inline]
    fn put_u64(&mut self, value: u64) -> Result<(), Error> {
        self.put(&value.to_be_bytes())
    }

    /// Opaque data and its padding.
    ///
    /// # Errors
    /// As [`Sink::put`].
    #[inline]
    fn put_padded(&mut self, data: &[u8]) -> Result<(), Error> {
        self.put(data)?;
        self.put([0u8; 3].split_at(pad_len(data.len())).0)
    }

    /// Opaque data that is the first `len` bytes of `room`, and its padding. A sink may move all of `room` at once.
    ///
    /// # Errors
    /// As [`Sink::put`].
    #[inline]
    fn put_first(&mut self, room: &[u8], len: usize) -> Result<(), Error> {
        self.put_padded(room.get(..len).unwrap_or(room))
    }

    /// A length that must not exceed `max`.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`].
    #[inline]
    fn put_count(&mut self, len: usize, max: u32) -> Result<(), Error> {
        match u32::try_from(len) {
            Ok(count) if count <= max => self.put_u32(count),
            _ => {
                Err(Error::new(ErrorKind::TooLong { len: len as u64, max: u64::from(max) }, self.position()))
            }
        }
    }
}

/// Writes into memory of its own.
#[derive(Clone, Debug, Default)]
pub struct Writer(Buffer);

impl Writer {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Writer::default()
    }

    /// An empty one with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Writer(Buffer::with_capacity(capacity))
    }

    /// An empty one with the memory of an earlier message.
    pub(crate) fn reused() -> Self {
        Writer(spare::buffer())
    }

    /// What was written and a copy of `behind`, as one message.
    pub(crate) fn into_message(self, behind: &[u8]) -> Bytes {
        spare::into_bytes(self.0, behind)
    }

    /// Forgets what was written and keeps the memory for what comes.
    #[inline]
    pub fn clear(&mut self) {
        self.0.truncate(0);
    }

    /// What was written.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// What was written, by value.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    /// What was written, by value, to be shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.into_vec().into()
    }
}

/// The methods of a sink that writes into a [`Buffer`].
macro_rules! put_into {
    ($self:ident => $buffer:expr) => {
        #[inline]
        fn put(&mut $self, bytes: &[u8]) -> Result<(), Error> {
            $buffer.put(bytes);
            Ok(())
        }

        #[inline]
        fn room(&mut $self, len: usize) -> Option<&mut [u8]> {
            $buffer.room(len)
        }

        #[inline]
        fn ahead(&mut $self) -> &mut [u8] {
            $buffer.ahead()
        }

        #[inline]
        fn advance(&mut $self, len: usize) {
            $buffer.advance(len);
        }

        #[inline]
        fn stages(&$self) -> bool {
            true
        }

        #[inline]
        fn put_padded(&mut $self, data: &[u8]) -> Result<(), Error> {
            $buffer.put_padded(data);
            Ok(())
        }

        #[inline]
        fn put_first(&mut $self, data: &[u8], len: usize) -> Result<(), Error> {
            $buffer.put_first(data, len);
            Ok(())
        }
    };
}

pub(super) use put_into;

impl Sink for Writer {
    put_into!(self => self.0);

    #[inline]
    fn position(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Room that another sink gave for a value whose length is known.
pub(super) struct Room<'a> {
    rest: &'a mut [u8],
    /// Offset of the end of `rest` in the unreduced stream.
    end: u64,
}

impl<'a> Room<'a> {
    #[inline]
    pub(super) fn new(rest: &'a mut [u8], position: u64) -> Self {
        let end = position.saturating_add(rest.len() as u64);
        Room { rest, end }
    }

    /// Ends writing.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] if a value wrote less than the sizes of its type say.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(unfit(0, self.rest.len(), self.end)) }
    }
}

/// Takes values: were it to refer to the room, this would have to be in memory while it is written to.
#[cold]
fn unfit(needed: usize, left: usize, end: u64) -> Error {
    let kind = ErrorKind::Truncated { needed: needed as u64, left: left as u64 };
    Error::new(kind, end.saturating_sub(left as u64))
}

impl Sink for Room<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.room(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Ok(())
            }
            // A type that says that it is shorter than it is.
            None => Err(unfit(bytes.len(), self.rest.len(), self.end)),
        }
    }

    #[inline(always)]
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.rest.split_off_mut(..len)
    }

    #[inline]
    fn position(&self) -> u64 {
        self.end.saturating_sub(self.rest.len() as u64)
    }
}

/// Memory behind another sink's end. Where it ends early, what comes is not written, and the values of which that was a
/// part are written anew in another way.
pub(super) struct Ahead<'a> {
    rest: &'a mut [u8],
    /// Offset of the end of `rest` in the unreduced stream.
    end: u64,
    full: bool,
}

impl<'a> Ahead<'a> {
    #[inline]
    pub(super) fn new(rest: &'a mut [u8], position: u64) -> Self {
        let end = position.saturating_add(rest.len() as u64);
        Ahead { rest, end, full: false }
    }

    /// How many bytes are left.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}

impl Sink for Ahead<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.room(bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.full = true,
        }
        Ok(())
    }

    #[inline(always)]
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.rest.split_off_mut(..len)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.full
    }

    #[inline(always)]
    fn put_padded(&mut self, data: &[u8]) -> Result<(), Error> {
        let room = data.len().checked_add(pad_len(data.len())).and_then(|padded| self.room(padded));
        let Some(room) = room else {
            self.full = true;
            return Ok(());
        };
        // Padding is in the last word, of which the data then takes what is not.
        if let Some(word) = room.last_chunk_mut::<4>() {
            *word = [0; 4];
        }
        if let Some((front, _)) = room.split_at_mut_checked(data.len()) {
            front.copy_from_slice(data);
        }
        Ok(())
    }

    #[inline(always)]
    fn put_first(&mut self, data: &[u8], len: usize) -> Result<(), Error> {
        let Some((front, _)) = self.rest.split_at_mut_checked(data.len().saturating_add(4)) else {
            return self.put_padded(data.get(..len).unwrap_or(data));
        };
        // All of `data` goes, for its length is a constant. Padding goes as a whole word over what was too much.
        if let Some((all, _)) = front.split_at_mut_checked(data.len()) {
            all.copy_from_slice(data);
        }
        if let Some(word) = front.get_mut(len..).and_then(|behind| behind.first_chunk_mut()) {
            *word = [0; 4];
        }
        let len = len.min(data.len());
        self.room(len.saturating_add(pad_len(len)));
        Ok(())
    }

    #[inline]
    fn position(&self) -> u64 {
        self.end.saturating_sub(self.rest.len() as u64)
    }
}

/// Counts only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length(u64);

impl Sink for Length {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(())
    }

    #[inline]
    fn position(&self) -> u64 {
        self.0
    }
}

/// How many bytes a value takes.
///
/// # Errors
/// [`ErrorKind::TooLong`] if the value breaks a bound of its type.
pub fn encoded_len<T: Encode + ?Sized>(value: &T) -> Result<u64, Error> {
    let mut length = Length::default();
    value.encode(&mut length)?;
    Ok(length.0)
}

/// A value's encoding, nothing taken out of it.
///
/// # Errors
/// [`ErrorKind::TooLong`] if the value breaks a bound of its type.
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Result<Bytes, Error> {
    // Memory of exactly this length is taken once, and shared as it is.
    let mut writer = Writer::with_capacity(usize::try_from(encoded_len(value)?).unwrap_or(0));
    value.encode(&mut writer)?;
    Ok(writer.into_bytes())
}
