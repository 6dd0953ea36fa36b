use alloc::borrow::Cow;
use alloc::vec::Vec;

use bytes::Bytes;

use super::message::{Placed, PlacedItem, Received};
use super::{Decode, Error, ErrorKind, Item, ItemMemory, pad_len};

/// Limits for a complete message, in addition to the bounds of its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// The maximum depth of nested boxes, counted arrays and lists (default 64). In generated types, a chain
    /// is a list and thus one level if the link is the last field of each element. If another field follows
    /// the link, each element is one level deeper than the preceding element.
    pub max_depth: u32,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for DecodeLimits {
    fn default() -> Self {
        DecodeLimits { max_depth: 64, non_exhaustive: () }
    }
}

/// Reads XDR from a stream and from the items that were moved out of the stream.
///
/// Offsets refer to the *unreduced* stream (RFC 8166 section 3.4.5). An item from a chunk advances the
/// offset by its padded length, as if the item were in the stream.
///
/// ```
/// use rpcrdma_runtime::xdr::{Decode, Error, Opaque, Reader};
///
/// # fn main() -> Result<(), Error> {
/// let mut reader = Reader::from_slice(&[0, 0, 0, 7, 0, 0, 0, 2, 42, 43, 0, 0]);
/// assert_eq!(u32::decode(&mut reader)?, 7);
/// assert_eq!(Opaque::<16>::decode(&mut reader)?.as_bytes()[..], [42, 43]);
/// reader.finish()?; // an error if bytes remain
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'de> {
    rest: &'de [u8],
    /// The bytes that end with `rest`, if their memory can be shared.
    owner: Option<&'de Bytes>,
    /// Offset of the end of `rest` in the unreduced stream. Reading from the stream moves only the start of
    /// `rest`.
    end: u64,
    items: Items<'de>,
    depth: u32,
    limits: DecodeLimits,
    /// The maximum number of further elements whose encodings may be empty, or `None` for no limit. A peer
    /// can claim such elements without sending any bytes.
    empty: Option<usize>,
}

#[derive(Clone, Debug)]
enum Items<'de> {
    None,
    Positioned(&'de [Item]),
    InOrder { next: u64, rest: &'de [PlacedItem] },
    Copied(&'de dyn ItemMemory),
}

impl<'de> Reader<'de> {
    /// Creates a reader of a received message and its items.
    #[must_use]
    pub fn new(message: &'de Received) -> Self {
        let mut reader = Reader::from_bytes(&message.stream);
        reader.items = match &message.items {
            Placed::None => Items::None,
            Placed::Positioned(items) => Items::Positioned(items),
            Placed::InOrder(items) => Items::InOrder { next: 0, rest: items },
        };
        reader
    }

    /// Creates a reader of bytes. Each decoded [`Opaque`](super::Opaque) shares the memory of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &'de Bytes) -> Self {
        let mut reader = Reader::from_slice(bytes);
        reader.owner = Some(bytes);
        reader
    }

    /// Creates a reader of bytes. Each decoded [`Opaque`](super::Opaque) or [`XdrString`](super::XdrString)
    /// is a copy.
    #[must_use]
    pub fn from_slice(bytes: &'de [u8]) -> Self {
        Reader {
            rest: bytes,
            owner: None,
            end: bytes.len() as u64,
            items: Items::None,
            depth: 0,
            limits: DecodeLimits::default(),
            empty: Some(bytes.len()),
        }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: DecodeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Supplies memory for one DDP-eligible item. The first item that is read while the memory is available
    /// is copied into the memory. Has no effect if [`Received::items`] is not [`Placed::None`].
    #[must_use]
    pub fn with_item_memory(mut self, memory: &'de dyn ItemMemory) -> Self {
        if matches!(self.items, Items::None) {
            self.items = Items::Copied(memory);
        }
        self
    }

    /// Disables the limit on zero-size elements. Call this for bytes that were decoded before, because their
    /// elements are already counted.
    pub(crate) fn read_before(mut self) -> Self {
        self.empty = None;
        self
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> DecodeLimits {
        self.limits
    }

    /// Returns the offset of the next byte in the unreduced stream.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.end.wrapping_sub(self.rest.len() as u64)
    }

    /// Returns the number of bytes left in the stream.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Creates an error of this kind at the next byte.
    #[cold]
    #[must_use]
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.position())
    }

    #[cold]
    fn truncated(&self, needed: usize) -> Error {
        self.error(ErrorKind::Truncated { needed: needed as u64, left: self.rest.len() as u64 })
    }

    /// Fails unless `len` bytes are left in the stream. The compiler can then omit the bounds checks of the
    /// following reads.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn require(&self, len: u64) -> Result<(), Error> {
        if (self.rest.len() as u64) < len {
            return Err(self.error(ErrorKind::Truncated { needed: len, left: self.rest.len() as u64 }));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn peek<const N: usize>(&self) -> Option<&'de [u8; N]> {
        self.rest.first_chunk()
    }

    /// Counts elements that may have size zero. A count is limited to the number of remaining bytes, and the
    /// sum of all counts to the number of bytes in the message. A short message could otherwise cause long
    /// iterations.
    pub(super) fn claim_empty(&mut self, count: u32) -> Result<(), Error> {
        let Some(left) = self.empty else { return Ok(()) };
        let max = left.min(self.rest.len());
        if count as usize > max {
            return Err(self.error(ErrorKind::TooLong { len: u64::from(count), max: max as u64 }));
        }
        self.empty = Some(left.saturating_sub(count as usize));
        Ok(())
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<&'de [u8; N], Error> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.truncated(N)),
        }
    }

    /// Reads the next `len` bytes, without padding.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'de [u8], Error> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.truncated(len)),
        }
    }

    /// Reads an unsigned integer (RFC 4506 section 4.2).
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(*self.array()?))
    }

    /// Reads an unsigned hyper (RFC 4506 section 4.5).
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(*self.array()?))
    }

    /// Reads a bool (RFC 4506 section 4.4) or the presence flag of optional data (section 4.19).
    ///
    /// # Errors
    /// [`ErrorKind::BadBool`] if the value is neither 0 nor 1; [`ErrorKind::Truncated`].
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Error> {
        let at = self.position();
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::new(ErrorKind::BadBool(other), at)),
        }
    }

    /// Reads a length of at most `max`.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`], [`ErrorKind::Truncated`].
    #[inline]
    pub fn count(&mut self, max: u32) -> Result<u32, Error> {
        let at = self.position();
        let len = self.u32()?;
        if len > max {
            return Err(Error::new(ErrorKind::TooLong { len: u64::from(len), max: u64::from(max) }, at));
        }
        Ok(len)
    }

    /// Reads `len` bytes of opaque data and their padding, which must be zero.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`], [`ErrorKind::Padding`].
    #[inline]
    pub fn opaque(&mut self, len: usize) -> Result<&'de [u8], Error> {
        let padding = pad_len(len);
        if let Some((padded, rest)) = len.checked_add(padding).and_then(|all| self.rest.split_at_checked(all))
            && let Some((data, _)) = padded.split_at_checked(len)
            && has_zero_padding(padded, padding)
        {
            self.rest = rest;
            return Ok(data);
        }
        self.refused_opaque(len)
    }

    /// Reads invalid opaque data with separate checks, to find out which error to return.
    #[cold]
    fn refused_opaque(&mut self, len: usize) -> Result<&'de [u8], Error> {
        let data = self.take(len)?;
        let at = self.position();
        if self.take(pad_len(len))?.iter().any(|byte| *byte != 0) {
            return Err(Error::new(ErrorKind::Padding, at));
        }
        Ok(data)
    }

    /// Reads opaque data. The result shares the reader's memory, or is a copy if this memory cannot be
    /// shared.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`], [`ErrorKind::Padding`].
    #[inline(always)]
    pub fn opaque_bytes(&mut self, len: usize) -> Result<Bytes, Error> {
        // The remaining bytes end where the owner ends, so their number determines the offset in the owner.
        let left = self.rest.len();
        let data = self.opaque(len)?;
        if let Some(owner) = self.owner
            && let Some(start) = owner.len().checked_sub(left)
        {
            return Ok(owner.slice(start..start.wrapping_add(len)));
        }
        Ok(Bytes::copy_from_slice(data))
    }

    /// Reads a DDP-eligible item of at most `max` bytes: its count, then its data from its chunk or from the
    /// stream.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] if the count exceeds `max` or the size of the item memory;
    /// [`ErrorKind::ItemLength`] if the chunk's length does not match the count; [`ErrorKind::ItemUnused`] if
    /// the reader is past a chunk's position; [`ErrorKind::Truncated`], [`ErrorKind::Padding`].
    #[inline(always)]
    pub fn item(&mut self, max: u32) -> Result<Bytes, Error> {
        let count = self.count(max)?;
        if matches!(self.items, Items::None) {
            return self.opaque_bytes(count as usize);
        }
        match self.take_item(count)? {
            Some(data) => Ok(data),
            None => self.opaque_bytes(count as usize),
        }
    }

    #[inline(never)]
    fn take_item(&mut self, count: u32) -> Result<Option<Bytes>, Error> {
        let len = count as usize;
        let offset = self.position();
        match &mut self.items {
            Items::None => Ok(None),
            Items::Positioned(items) => {
                let Some((first, rest)) = items.split_first() else { return Ok(None) };
                let position = u64::from(first.position);
                if position > offset {
                    return Ok(None);
                }
                if position < offset {
                    return Err(self.error(ErrorKind::ItemUnused { position }));
                }
                let chunk = first.data.len();
                // The chunk may omit the padding (RFC 8166 section 3.4.5.2).
                if chunk != len && Some(chunk) != len.checked_add(pad_len(len)) {
                    return Err(self.error(ErrorKind::ItemLength { count, chunk: chunk as u64 }));
                }
                *items = rest;
                self.advance_over_item(len);
                Ok(Some(first.data.slice(..len)))
            }
            Items::InOrder { next, rest } => {
                let Some((first, behind)) = rest.split_first() else { return Ok(None) };
                // An empty item consumes no chunk. Linux's server interprets RFC 8166 section 4.3.2.2 in the
                // same way.
                if len == 0 {
                    return Ok(None);
                }
                // With a Write chunk without segments, the requester asks for this item inline (section
                // 4.3.2.3). Any other Write chunk contains the item, because a responder must use the chunk
                // (section 4.3.2).
                let empty = first.segments == 0;
                let chunk = first.data.len();
                if !empty && chunk != len {
                    return Err(self.error(ErrorKind::ItemLength { count, chunk: chunk as u64 }));
                }
                (*next, *rest) = (next.saturating_add(1), behind);
                if empty {
                    return Ok(None);
                }
                self.advance_over_item(len);
                Ok(Some(first.data.clone()))
            }
            Items::Copied(memory) => {
                let Some(mut room) = memory.acquire() else { return Ok(None) };
                if room.capacity() < len {
                    let max = room.capacity() as u64;
                    return Err(self.error(ErrorKind::TooLong { len: u64::from(count), max }));
                }
                self.items = Items::None;
                room.extend_from_slice(self.opaque(len)?);
                Ok(Some(room.freeze()))
            }
        }
    }

    /// Returns the remaining bytes with the items of Read chunks inserted and padded. Copies only if such
    /// items are left.
    ///
    /// # Errors
    /// [`ErrorKind::ItemUnused`] if an item's position is outside the remaining bytes, or if a Write chunk is
    /// unread: Write chunks have no positions.
    pub fn gathered(self) -> Result<Cow<'de, [u8]>, Error> {
        let items = match self.items {
            Items::None | Items::Copied(_) => return Ok(Cow::Borrowed(self.rest)),
            Items::Positioned(items) => items,
            Items::InOrder { next, rest } if !rest.is_empty() => {
                return Err(self.error(ErrorKind::ItemUnused { position: next }));
            }
            Items::InOrder { .. } => return Ok(Cow::Borrowed(self.rest)),
        };
        if items.is_empty() {
            return Ok(Cow::Borrowed(self.rest));
        }
        let mut gathered = Vec::with_capacity(self.rest.len());
        let (mut rest, mut offset) = (self.rest, self.position());
        for item in items {
            let position = u64::from(item.position);
            let before = position.checked_sub(offset).and_then(|len| usize::try_from(len).ok());
            let Some((head, tail)) = before.and_then(|len| rest.split_at_checked(len)) else {
                return Err(self.error(ErrorKind::ItemUnused { position }));
            };
            gathered.extend_from_slice(head);
            gathered.extend_from_slice(&item.data);
            let padding = pad_len(item.data.len());
            gathered.extend_from_slice([0u8; 3].split_at(padding).0);
            rest = tail;
            offset = position.saturating_add(item.data.len() as u64).saturating_add(padding as u64);
        }
        gathered.extend_from_slice(rest);
        Ok(Cow::Owned(gathered))
    }

    fn advance_over_item(&mut self, len: usize) {
        self.end = self.end.wrapping_add(len as u64).wrapping_add(pad_len(len) as u64);
    }

    /// Enters a nested value. Call [`Reader::leave`] afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::TooDeep`].
    #[inline]
    pub fn enter(&mut self) -> Result<(), Error> {
        if self.depth >= self.limits.max_depth {
            return Err(self.error(ErrorKind::TooDeep { limit: self.limits.max_depth }));
        }
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    /// Returns true if the entered value is inside another box, counted array or list.
    #[inline]
    pub(super) fn is_nested(&self) -> bool {
        self.depth > 1
    }

    /// Leaves a nested value.
    #[inline]
    pub fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Decodes one value from all remaining bytes and items.
    #[inline(always)]
    pub(crate) fn decode_all<T: Decode<'de>>(mut self) -> Result<T, Error> {
        let value = T::decode(&mut self)?;
        self.finish()?;
        Ok(value)
    }

    /// Checks that all bytes and all items were read.
    ///
    /// # Errors
    /// [`ErrorKind::Trailing`] if bytes are left; [`ErrorKind::ItemUnused`] if a Read chunk, or a Write chunk
    /// with data, matched no eligible item.
    #[inline]
    pub fn finish(&self) -> Result<(), Error> {
        if self.rest.is_empty() && matches!(self.items, Items::None) {
            return Ok(());
        }
        self.finish_with_items()
    }

    #[cold]
    fn finish_with_items(&self) -> Result<(), Error> {
        if !self.rest.is_empty() {
            return Err(self.error(ErrorKind::Trailing(self.rest.len() as u64)));
        }
        let unused = match &self.items {
            Items::None | Items::Copied(_) => None,
            Items::Positioned(items) => items.first().map(|item| u64::from(item.position)),
            Items::InOrder { next, rest } => {
                (*next..).zip(*rest).find(|(_, item)| !item.data.is_empty()).map(|(index, _)| index)
            }
        };
        match unused {
            Some(position) => Err(self.error(ErrorKind::ItemUnused { position })),
            None => Ok(()),
        }
    }
}

/// Returns true if the last `padding` bytes (at most three) are zero. These bytes are in the last word, so
/// one comparison suffices.
#[inline]
fn has_zero_padding(padded: &[u8], padding: usize) -> bool {
    let mask = !(u32::MAX << (padding.wrapping_mul(8) & 31));
    // Empty data has no last word and no padding.
    padded.last_chunk::<4>().is_none_or(|word| u32::from_be_bytes(*word) & mask == 0)
}
