//! Borrowed arrays, lists and nested values. The content of a decoded value stays encoded in the message and
//! is decoded again on access. The content cannot contain DDP-eligible items: an item that was sent in a
//! chunk is not in the message, so it could not be decoded again.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

use super::array::{encode_elements, require_elements};
use super::{Decode, DecodeLimits, Encode, Error, ErrorKind, Items, Layout, Lengths, Reader, Sink, Size};

enum Held<'a, T> {
    Values(&'a [T]),
    Encoded(Encoded<'a>),
}

/// The encodings of consecutive values, which were validated when the message was decoded.
#[derive(Clone, Copy)]
struct Encoded<'a> {
    bytes: &'a [u8],
    count: u32,
    /// The limit on nesting depth that applied when the values were read.
    depth: u32,
    /// Whether the values form a chain: a word of 1 before each value, and a word of 0 after the last.
    linked: bool,
}

impl<'a> Encoded<'a> {
    /// Returns the part of the message between `start` and `reader`.
    ///
    /// # Errors
    /// [`ErrorKind::ItemUnused`] if part of the values came in a chunk: a second decoding would not find that
    /// part.
    fn since(start: &Reader<'a>, reader: &Reader<'a>, count: u32, linked: bool) -> Result<Self, Error> {
        let len = start.remaining().saturating_sub(reader.remaining());
        if reader.position().wrapping_sub(start.position()) != len as u64 {
            return Err(start.error(ErrorKind::ItemUnused { position: start.position() }));
        }
        let bytes = start.clone().take(len)?;
        Ok(Encoded { bytes, count, depth: reader.limits().max_depth, linked })
    }

    fn reader(&self) -> Reader<'a> {
        Reader::from_slice(self.bytes)
            .with_limits(DecodeLimits { max_depth: self.depth, ..DecodeLimits::default() })
            .read_before()
    }
}

impl<T> Clone for Held<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Held<'_, T> {}

impl<'a, T> Held<'a, T> {
    fn len(&self) -> usize {
        match self {
            Held::Values(values) => values.len(),
            Held::Encoded(encoded) => encoded.count as usize,
        }
    }

    fn iter(&self) -> Iter<'a, T> {
        Iter(match self {
            Held::Values(values) => Walk::Values(values.iter()),
            Held::Encoded(encoded) => {
                Walk::Encoded { reader: encoded.reader(), left: encoded.count, linked: encoded.linked }
            }
        })
    }
}

/// An iterator over the elements of an [`ArrayRef`] or a [`ListRef`].
#[derive(Clone, Debug)]
pub struct Iter<'a, T>(Walk<'a, T>);

#[derive(Clone, Debug)]
enum Walk<'a, T> {
    Values(core::slice::Iter<'a, T>),
    Encoded { reader: Reader<'a>, left: u32, linked: bool },
}

impl<'a, T: Decode<'a> + Clone> Iterator for Iter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Walk::Values(values) => values.next().cloned(),
            Walk::Encoded { reader, left, linked } => {
                *left = left.checked_sub(1)?;
                if *linked {
                    reader.u32().ok()?;
                }
                // The value was decoded before, or has size zero. Decoding fails only if the type's decoding
                // is not deterministic.
                T::decode(reader).ok()
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Walk::Values(values) => values.len(),
            Walk::Encoded { left, .. } => *left as usize,
        };
        (left, Some(left))
    }
}

impl<'a, T: Decode<'a> + Clone> ExactSizeIterator for Iter<'a, T> {}

/// A borrowed counted array of at most `MAX` elements (RFC 4506 section 4.13).
///
/// An array created from a slice borrows the slice. A decoded array borrows the part of the message that
/// contains the elements. Decoding validates each element but stores none. [`ArrayRef::iter`] decodes the
/// elements again one by one, as do comparison, hashing and printing. A value therefore needs no memory other
/// than the message, and each level of nested arrays costs one more decoding. Encoding a decoded array
/// copies the elements' bytes from the message.
///
/// Decoding an array whose elements can contain DDP-eligible items does not compile.
///
/// ```
/// use rpcrdma_runtime::xdr::{ArrayRef, Error, from_slice, to_bytes};
///
/// # fn main() -> Result<(), Error> {
/// let message = to_bytes(&ArrayRef::<u32, 16>::new(&[6, 7]))?;
/// let marks: ArrayRef<'_, u32, 16> = from_slice(&message)?;
/// assert_eq!((marks.len(), marks.iter().product::<u32>()), (2, 42));
/// # Ok(())
/// # }
/// ```
pub struct ArrayRef<'a, T, const MAX: u32 = { u32::MAX }>(Held<'a, T>);

impl<T: Layout, const MAX: u32> Layout for ArrayRef<'_, T, MAX> {
    const LENGTHS: Lengths = T::LENGTHS.array(MAX);
    const HELD: Items = T::HELD.array(MAX);
}

impl<T: Encode, const MAX: u32> Encode for ArrayRef<'_, T, MAX> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_count(self.0.len(), MAX)?;
        match &self.0 {
            Held::Values(values) => encode_elements::<T, S, false>(values, sink),
            Held::Encoded(encoded) => sink.put(encoded.bytes),
        }
    }
}

impl<'de: 'a, 'a, T: Decode<'de>, const MAX: u32> Decode<'de> for ArrayRef<'a, T, MAX> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        const { assert!(T::HELD.is_none(), "elements of an ArrayRef cannot contain DDP-eligible items") }
        let count = reader.count(MAX)?;
        require_elements::<T>(reader, count)?;
        let start = reader.clone();
        reader.enter()?;
        // Zero-size elements need no check.
        if T::LENGTHS.max != Size::ZERO {
            for index in 0..count as usize {
                T::decode(reader).map_err(|error| error.at_index(index))?;
            }
        }
        reader.leave();
        Ok(ArrayRef(Held::Encoded(Encoded::since(&start, reader, count, false)?)))
    }
}

/// A borrowed chain of optional data (RFC 4506 section 4.19).
///
/// As with [`ArrayRef`], the elements of a decoded list stay in the message and are decoded again on access.
pub struct ListRef<'a, T>(Held<'a, T>);

impl<T: Layout> Layout for ListRef<'_, T> {
    const LENGTHS: Lengths = Lengths::UNKNOWN.array(u32::MAX);
    const HELD: Items = T::HELD.array(u32::MAX);
}

impl<T: Encode> Encode for ListRef<'_, T> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        match &self.0 {
            Held::Values(values) => super::encode_list(values, sink),
            Held::Encoded(encoded) => sink.put(encoded.bytes),
        }
    }
}

impl<'de: 'a, 'a, T: Decode<'de>> Decode<'de> for ListRef<'a, T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        const { assert!(T::HELD.is_none(), "elements of a ListRef cannot contain DDP-eligible items") }
        let start = reader.clone();
        reader.enter()?;
        let mut count = 0u32;
        while reader.bool()? {
            T::decode(reader).map_err(|error| error.at_index(count as usize))?;
            count = count.checked_add(1).ok_or_else(|| reader.error(ErrorKind::TooLarge))?;
        }
        reader.leave();
        Ok(ListRef(Held::Encoded(Encoded::since(&start, reader, count, true)?)))
    }
}

macro_rules! sequence {
    ($name:ident $(, $max:ident)?) => {
        impl<'a, T $(, const $max: u32)?> $name<'a, T $(, $max)?> {
            /// Borrows elements.
            #[must_use]
            pub const fn new(elements: &'a [T]) -> Self {
                $name(Held::Values(elements))
            }

            /// Returns the number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Returns true if there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns an iterator over the elements.
            #[must_use]
            pub fn iter(&self) -> Iter<'a, T> {
                self.0.iter()
            }

            /// Collects the elements in a vector.
            #[must_use]
            pub fn to_vec(&self) -> Vec<T>
            where
                T: Decode<'a> + Clone,
            {
                self.iter().collect()
            }
        }

        impl<T $(, const $max: u32)?> Clone for $name<'_, T $(, $max)?> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T $(, const $max: u32)?> Copy for $name<'_, T $(, $max)?> {}

        impl<T $(, const $max: u32)?> Default for $name<'_, T $(, $max)?> {
            fn default() -> Self {
                $name::new(&[])
            }
        }

        impl<'a, T $(, const $max: u32)?> From<&'a [T]> for $name<'a, T $(, $max)?> {
            fn from(elements: &'a [T]) -> Self {
                $name::new(elements)
            }
        }

        impl<'a, T, const LEN: usize $(, const $max: u32)?> From<&'a [T; LEN]> for $name<'a, T $(, $max)?> {
            fn from(elements: &'a [T; LEN]) -> Self {
                $name::new(elements)
            }
        }

        impl<'a, T $(, const $max: u32)?> From<&'a Vec<T>> for $name<'a, T $(, $max)?> {
            fn from(elements: &'a Vec<T>) -> Self {
                $name::new(elements)
            }
        }

        impl<'a, T: Decode<'a> + Clone $(, const $max: u32)?> IntoIterator for $name<'a, T $(, $max)?> {
            type Item = T;
            type IntoIter = Iter<'a, T>;
            fn into_iter(self) -> Iter<'a, T> {
                self.iter()
            }
        }

        impl<'a, T: Decode<'a> + Clone $(, const $max: u32)?> IntoIterator for &$name<'a, T $(, $max)?> {
            type Item = T;
            type IntoIter = Iter<'a, T>;
            fn into_iter(self) -> Iter<'a, T> {
                self.iter()
            }
        }

        impl<'a, T: Decode<'a> + Clone + PartialEq $(, const $max: u32)?> PartialEq for $name<'a, T $(, $max)?> {
            fn eq(&self, other: &Self) -> bool {
                self.len() == other.len() && self.iter().eq(other.iter())
            }
        }

        impl<'a, T: Decode<'a> + Clone + Eq $(, const $max: u32)?> Eq for $name<'a, T $(, $max)?> {}

        impl<'a, T: Decode<'a> + Clone + Hash $(, const $max: u32)?> Hash for $name<'a, T $(, $max)?> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.len().hash(state);
                self.iter().for_each(|element| element.hash(state));
            }
        }

        impl<'a, T: Decode<'a> + Clone + fmt::Debug $(, const $max: u32)?> fmt::Debug for $name<'a, T $(, $max)?> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }
    };
}

sequence!(ArrayRef, MAX);
sequence!(ListRef);

/// A borrowed value of a recursive type: the borrowed form of a `Box`.
///
/// A box created from a reference contains the reference. A decoded box borrows the part of the message that
/// contains the value, and [`BoxRef::get`] decodes this part again.
pub struct BoxRef<'a, T>(Held<'a, T>);

impl<'a, T> BoxRef<'a, T> {
    /// Borrows a value.
    #[must_use]
    pub const fn new(value: &'a T) -> Self {
        BoxRef(Held::Values(core::slice::from_ref(value)))
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Never fails if the decoding of the type is deterministic: the bytes were already decoded once.
    pub fn get(&self) -> Result<T, Error>
    where
        T: Decode<'a> + Clone,
    {
        match &self.0 {
            Held::Values([value, ..]) => Ok(value.clone()),
            Held::Values([]) => Err(Error::new(ErrorKind::Truncated { needed: 1, left: 0 }, 0)),
            Held::Encoded(encoded) => T::decode(&mut encoded.reader()),
        }
    }
}

impl<T> Clone for BoxRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BoxRef<'_, T> {}

impl<'a, T> From<&'a T> for BoxRef<'a, T> {
    fn from(value: &'a T) -> Self {
        BoxRef::new(value)
    }
}

/// The lengths are unknown, as for a `Box`: `T` may contain this `BoxRef`, so lengths computed from those of
/// `T` would depend on themselves.
impl<T: Layout> Layout for BoxRef<'_, T> {
    const LENGTHS: Lengths = Lengths::UNKNOWN;
    const HELD: Items = T::HELD;
}

impl<T: Encode> Encode for BoxRef<'_, T> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        match &self.0 {
            Held::Values(values) => values.iter().try_for_each(|value| value.encode(sink)),
            Held::Encoded(encoded) => sink.put(encoded.bytes),
        }
    }
}

impl<'de: 'a, 'a, T: Decode<'de>> Decode<'de> for BoxRef<'a, T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        const { assert!(T::HELD.is_none(), "the value of a BoxRef cannot contain DDP-eligible items") }
        let start = reader.clone();
        reader.enter()?;
        T::decode(reader)?;
        reader.leave();
        Ok(BoxRef(Held::Encoded(Encoded::since(&start, reader, 1, false)?)))
    }
}

impl<'a, T: Decode<'a> + Clone + PartialEq> PartialEq for BoxRef<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().eq(other.0.iter())
    }
}

impl<'a, T: Decode<'a> + Clone + Eq> Eq for BoxRef<'a, T> {}

impl<'a, T: Decode<'a> + Clone + Hash> Hash for BoxRef<'a, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|value| value.hash(state));
    }
}

impl<'a, T: Decode<'a> + Clone + fmt::Debug> fmt::Debug for BoxRef<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(value) => value.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
