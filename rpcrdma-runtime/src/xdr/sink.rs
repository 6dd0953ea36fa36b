use alloc::vec::Vec;

use bytes::Bytes;

use super::{Encode, Error, ErrorKind, pad_len};

/// Where encodings go. `put` takes bytes as they are; padding is the caller's.
pub trait Sink {
    /// Appends bytes.
    ///
    /// # Errors
    /// What the sink refuses. Those of this module refuse nothing.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;

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
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Writer::default()
    }

    /// An empty one with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Writer(Vec::with_capacity(capacity))
    }

    /// Forgets what was written and keeps the memory for what comes.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What was written.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// What was written, by value.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }

    /// What was written, by value, to be shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

impl Sink for Writer {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn position(&self) -> u64 {
        self.0.len() as u64
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
    let mut writer = Writer::new();
    value.encode(&mut writer)?;
    Ok(writer.into_bytes())
}
