use alloc::vec::Vec;

use bytes::Bytes;

use super::buffer::{Buffer, fill_first, fill_padded};
use super::{Encode, Error, ErrorKind, pad_len, spare};

/// A destination for encoded data. `put` writes bytes unchanged; the caller adds padding.
pub trait Sink {
    /// Appends bytes.
    ///
    /// # Errors
    /// Returns the sink's error. [`Writer`], [`Length`] and [`super::Reducer`] never fail here.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Appends `len` bytes and returns them for the caller to overwrite completely, so that one call reserves
    /// memory for many values. Returns `None` if the sink does not provide memory for `len` bytes. The caller
    /// then uses other methods.
    #[inline]
    fn room(&mut self, _len: usize) -> Option<&mut [u8]> {
        None
    }

    /// Returns the memory that follows the sink's content, for the caller to overwrite. [`Sink::advance`]
    /// appends the first bytes of this memory. Values of variable size can thus be written without separate
    /// reservations. Returns an empty slice if the sink provides no memory.
    #[inline]
    fn ahead(&mut self) -> &mut [u8] {
        &mut []
    }

    /// Appends the first `len` bytes of the memory that [`Sink::ahead`] returned.
    #[inline]
    fn advance(&mut self, _len: usize) {}

    /// Returns true if short consecutive values should be staged in other memory and then appended together
    /// by [`Sink::put`]. Values are staged only if neither [`Sink::room`] nor [`Sink::ahead`] provides enough
    /// memory.
    #[doc(hidden)]
    #[inline]
    fn stages(&self) -> bool {
        false
    }

    /// Returns true if further output is discarded, so that encoding can stop.
    #[doc(hidden)]
    #[inline]
    fn is_full(&self) -> bool {
        false
    }

    /// Returns the offset of the next byte in the unreduced stream.
    fn position(&self) -> u64;

    /// Appends a DDP-eligible item after its count. A reducing sink moves the item out of the stream if the
    /// item has at least the sink's minimum size. In all other cases, the item is copied into the stream and
    /// padded.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] from a reducing sink if the position does not fit in 32 bits, or the error of
    /// [`Sink::put`].
    fn put_item(&mut self, item: &Bytes) -> Result<(), Error> {
        self.put_padded(item)
    }

    /// Appends an unsigned integer.
    ///
    /// # Errors
    /// Fails as [`Sink::put`] does.
    #[inline]
    fn put_u32(&mut self, value: u32) -> Result<(), Error> {
        self.put(&value.to_be_bytes())
    }

    /// Appends an unsigned hyper.
    ///
    /// # Errors
    /// Fails as [`Sink::put`] does.
    #[inline]
    fn put_u64(&mut self, value: u64) -> Result<(), Error> {
        self.put(&value.to_be_bytes())
    }

    /// Appends opaque data and its padding.
    ///
    /// # Errors
    /// Fails as [`Sink::put`] does.
    #[inline]
    fn put_padded(&mut self, data: &[u8]) -> Result<(), Error> {
        self.put(data)?;
        self.put([0u8; 3].split_at(pad_len(data.len())).0)
    }

    /// Appends the first `len` bytes of `room` as opaque data, with padding. A sink may first copy all of
    /// `room`, because a copy of constant length is faster.
    ///
    /// # Errors
    /// Fails as [`Sink::put`] does.
    #[inline]
    fn put_first(&mut self, room: &[u8], len: usize) -> Result<(), Error> {
        self.put_padded(room.get(..len).unwrap_or(room))
    }

    /// Appends a length that must not exceed `max`.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`], or the error of [`Sink::put`].
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

/// A sink that writes into its own memory.
#[derive(Clone, Debug, Default)]
pub struct Writer(Buffer);

impl Writer {
    /// Creates an empty writer.
    #[must_use]
    pub fn new() -> Self {
        Writer::default()
    }

    /// Creates an empty writer and allocates memory for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Writer(Buffer::with_capacity(capacity))
    }

    /// Creates an empty writer that reuses the memory of an earlier message, if any.
    pub(crate) fn reused() -> Self {
        Writer(spare::buffer())
    }

    /// Returns the written bytes followed by a copy of `suffix`, as one message.
    pub(crate) fn into_message(self, suffix: &[u8]) -> Bytes {
        spare::into_bytes(self.0, suffix)
    }

    /// Removes all written bytes and keeps the memory for reuse.
    #[inline]
    pub fn clear(&mut self) {
        self.0.truncate(0);
    }

    /// Returns the written bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Returns the written bytes by value.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    /// Returns the written bytes by value, in shareable form.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.into_vec().into()
    }
}

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

/// Memory, in another sink or on the stack, for one run of fixed-size values. The values must fill the memory
/// exactly.
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

    /// Fails if the encoded values do not fill the memory.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(truncated(0, self.rest.len(), self.end)) }
    }
}

/// Returns the error of a run whose values do not fill its memory exactly. Takes integers, because a
/// reference to the [`Room`] would force the `Room` out of registers.
#[cold]
fn truncated(needed: usize, left: usize, end: u64) -> Error {
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
            // The type's declared size is too small.
            None => Err(truncated(bytes.len(), self.rest.len(), self.end)),
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

/// Memory after another sink's content, or on the stack. A value that does not fit is discarded and written
/// again by another method.
pub(super) struct TrialSink<'a> {
    rest: &'a mut [u8],
    /// Offset of the end of `rest` in the unreduced stream.
    end: u64,
    full: bool,
}

impl<'a> TrialSink<'a> {
    #[inline]
    pub(super) fn new(rest: &'a mut [u8], position: u64) -> Self {
        let end = position.saturating_add(rest.len() as u64);
        TrialSink { rest, end, full: false }
    }

    #[inline]
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}

impl Sink for TrialSink<'_> {
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
        match room {
            Some(room) => fill_padded(room, data),
            None => self.full = true,
        }
        Ok(())
    }

    #[inline(always)]
    fn put_first(&mut self, data: &[u8], len: usize) -> Result<(), Error> {
        let Some((front, _)) = self.rest.split_at_mut_checked(data.len().saturating_add(4)) else {
            return self.put_padded(data.get(..len).unwrap_or(data));
        };
        fill_first(front, data, len);
        let len = len.min(data.len());
        self.room(len.saturating_add(pad_len(len)));
        Ok(())
    }

    #[inline]
    fn position(&self) -> u64 {
        self.end.saturating_sub(self.rest.len() as u64)
    }
}

/// A sink that only counts bytes.
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

/// Returns the encoded size of a value in bytes.
///
/// # Errors
/// Fails as [`Encode::encode`] does.
pub fn encoded_len<T: Encode + ?Sized>(value: &T) -> Result<u64, Error> {
    let mut length = Length::default();
    value.encode(&mut length)?;
    Ok(length.0)
}

/// Returns the complete encoding of a value.
///
/// # Errors
/// Fails as [`Encode::encode`] does.
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Result<Bytes, Error> {
    // Allocates the exact size once. `Bytes` then takes over the memory without copying.
    let mut writer = Writer::with_capacity(usize::try_from(encoded_len(value)?).unwrap_or(0));
    value.encode(&mut writer)?;
    Ok(writer.into_bytes())
}
