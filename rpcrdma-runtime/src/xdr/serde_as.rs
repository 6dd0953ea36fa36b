//! Support for [`serde`]: implementations for XDR's types, and a [`Shape`] for each kind of field that serde
//! cannot read or would read without a bound.
//!
//! Variable-length opaque data is serialized as bytes. A string is serialized as text if the format is
//! human-readable and the string is UTF-8, otherwise as bytes. Deserialization rejects a value that is longer
//! than its type allows.
//!
//! A field that needs a shape names the shape in a `with` attribute. Generated types have the same attributes
//! as this handwritten type:
//!
//! ```
//! use rpcrdma_runtime::xdr::{Xdr, serde_as};
//!
//! #[derive(serde::Serialize, serde::Deserialize, Xdr)]
//! struct Block {
//!     #[serde(with = "serde_as::As::<serde_as::Array<serde_as::Same>>")]
//!     seal: [u8; 64],
//!     #[xdr(max = 4)]
//!     #[serde(with = "serde_as::As::<serde_as::Bounded<serde_as::Same, 4>>")]
//!     votes: Vec<u32>,
//! }
//!
//! let json = serde_json::to_string(&Block { seal: [0; 64], votes: vec![1, 2] }).unwrap();
//! assert!(serde_json::from_str::<Block>(&json).is_ok());
//! assert!(serde_json::from_str::<Block>(&json.replace("[1,2]", "[1,2,3,4,5]")).is_err());
//! let error = serde_json::from_str::<Block>(&json.replacen("0,", "", 1)).err().unwrap();
//! assert!(error.to_string().starts_with("invalid length 63, expected 64 elements"));
//! let error = serde_json::from_str::<Block>(&json.replacen("0,", "0,0,", 1)).err().unwrap();
//! assert!(error.to_string().starts_with("invalid length 65, expected 64 elements"));
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::derive_support::Keeps;
use super::{Char, Opaque, Quadruple, SmallOpaque, UnsignedChar, XdrString};

/// How a value of type `T` is serialized and deserialized.
pub trait Shape<T> {
    /// Serializes the value.
    ///
    /// # Errors
    /// Returns the format's error.
    fn serialize<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>;

    /// Deserializes a value.
    ///
    /// # Errors
    /// Returns the format's error, or an error if the value breaks a bound.
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>;
}

/// The shape of a discriminant stored in the arm with the index `ARM`: `#[serde(with = "Kept::<Union, 2>")]`.
/// A discriminant that selects another arm is rejected, since the value could not be encoded as XDR.
#[derive(Debug)]
pub struct Kept<U, const ARM: usize>(PhantomData<U>);

impl<U: Keeps<ARM>, const ARM: usize> Kept<U, ARM> {
    /// Serializes the discriminant.
    ///
    /// # Errors
    /// Returns the format's error.
    pub fn serialize<S: Serializer>(discriminant: &U::Discriminant, serializer: S) -> Result<S::Ok, S::Error>
    where
        U::Discriminant: Serialize,
    {
        discriminant.serialize(serializer)
    }

    /// Deserializes a discriminant.
    ///
    /// # Errors
    /// Returns the format's error, or an error if the discriminant does not select the arm.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<U::Discriminant, D::Error>
    where
        U::Discriminant: Deserialize<'de>,
    {
        let discriminant = U::Discriminant::deserialize(deserializer)?;
        if U::chooses(&discriminant) {
            Ok(discriminant)
        } else {
            Err(de::Error::custom("the discriminant does not select this arm of the union"))
        }
    }
}

/// The adapter in the attribute of a field with a shape: `#[serde(with = "As::<Shape>")]`.
#[derive(Debug)]
pub struct As<A>(PhantomData<A>);

impl<A> As<A> {
    /// Serializes a field.
    ///
    /// # Errors
    /// Returns the format's error.
    pub fn serialize<T, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        A: Shape<T>,
    {
        A::serialize(value, serializer)
    }

    /// Deserializes a field.
    ///
    /// # Errors
    /// Returns the format's error, or an error if the value breaks a bound.
    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        A: Shape<T>,
    {
        A::deserialize(deserializer)
    }
}

/// The shape that the type's own serde implementations define.
#[derive(Debug)]
pub struct Same;

/// A fixed-length array of elements with the shape `A`. serde itself supports at most 32 elements.
#[derive(Debug)]
pub struct Array<A>(PhantomData<A>);

/// A vector of elements with the shape `A`.
#[derive(Debug)]
pub struct Many<A>(PhantomData<A>);

/// A vector of at most `MAX` elements with the shape `A`.
#[derive(Debug)]
pub struct Bounded<A, const MAX: u32>(PhantomData<A>);

/// Optional data with the shape `A`.
#[derive(Debug)]
pub struct Maybe<A>(PhantomData<A>);

/// A boxed value with the shape `A`.
#[derive(Debug)]
pub struct Boxed<A>(PhantomData<A>);

impl<T: Serialize + for<'a> Deserialize<'a>> Shape<T> for Same {
    fn serialize<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}

impl<T, A: Shape<T>, const N: usize> Shape<[T; N]> for Array<A> {
    fn serialize<S: Serializer>(value: &[T; N], serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(N)?;
        value.iter().try_for_each(|element| tuple.serialize_element(&Shaped::<T, A>::new(element)))?;
        tuple.end()
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[T; N], D::Error> {
        let elements = deserializer.deserialize_tuple(N, Elements::<T, A>::exactly(N))?;
        let len = elements.len();
        elements.try_into().map_err(|_| de::Error::invalid_length(len, &Elements::<T, A>::exactly(N)))
    }
}

impl<T, A: Shape<T>> Shape<Vec<T>> for Many<A> {
    fn serialize<S: Serializer>(value: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value.iter().map(Shaped::<T, A>::new))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(Elements::<T, A>::at_most(usize::MAX))
    }
}

impl<T, A: Shape<T>, const MAX: u32> Shape<Vec<T>> for Bounded<A, MAX> {
    fn serialize<S: Serializer>(value: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
        Many::<A>::serialize(value, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(Elements::<T, A>::at_most(usize::try_from(MAX).unwrap_or(usize::MAX)))
    }
}

impl<T, A: Shape<T>> Shape<Option<T>> for Maybe<A> {
    fn serialize<S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Shaped::<T, A>::new).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Option::<Read<T, A>>::deserialize(deserializer).map(|value| value.map(|value| value.0))
    }
}

impl<T, A: Shape<T>> Shape<Box<T>> for Boxed<A> {
    fn serialize<S: Serializer>(value: &Box<T>, serializer: S) -> Result<S::Ok, S::Error> {
        A::serialize(value, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<T>, D::Error> {
        A::deserialize(deserializer).map(Box::new)
    }
}

struct Shaped<'v, T, A>(&'v T, PhantomData<A>);

impl<'v, T, A> Shaped<'v, T, A> {
    fn new(value: &'v T) -> Self {
        Shaped(value, PhantomData)
    }
}

impl<T, A: Shape<T>> Serialize for Shaped<'_, T, A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        A::serialize(self.0, serializer)
    }
}

struct Read<T, A>(T, PhantomData<A>);

impl<'de, T, A: Shape<T>> Deserialize<'de> for Read<T, A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        A::deserialize(deserializer).map(|value| Read(value, PhantomData))
    }
}

/// The maximum number of elements for which memory is reserved: claimed elements may never arrive.
const MAX_RESERVED: usize = 1024;

struct Elements<T, A> {
    max: usize,
    /// True if `max` is also the minimum number of elements. [`Array`] checks the minimum, not this visitor.
    is_exact: bool,
    shape: PhantomData<(T, A)>,
}

impl<T, A> Elements<T, A> {
    fn at_most(max: usize) -> Self {
        Elements { max, is_exact: false, shape: PhantomData }
    }

    fn exactly(count: usize) -> Self {
        Elements { max: count, is_exact: true, shape: PhantomData }
    }
}

impl<'de, T, A: Shape<T>> Visitor<'de> for Elements<T, A> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max {
            usize::MAX => f.write_str("a sequence"),
            count if self.is_exact => write!(f, "{count} elements"),
            max => write!(f, "at most {max} elements"),
        }
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<Vec<T>, S::Error> {
        let mut values =
            Vec::with_capacity(sequence.size_hint().unwrap_or(0).min(self.max).min(MAX_RESERVED));
        while let Some(Read(value, _)) = sequence.next_element::<Read<T, A>>()? {
            if values.len() == self.max {
                return Err(de::Error::invalid_length(self.max.saturating_add(1), &self));
            }
            values.push(value);
        }
        Ok(values)
    }
}

/// Accepts at most this many bytes, given as bytes, text or a sequence of numbers.
struct BytesVisitor(usize);

impl BytesVisitor {
    fn checked<E: de::Error>(&self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        if bytes.len() > self.0 { Err(E::invalid_length(bytes.len(), self)) } else { Ok(bytes) }
    }
}

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} bytes", self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        self.visit_bytes(text.as_bytes())
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        self.checked(bytes.into())
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        self.checked(bytes)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, sequence: S) -> Result<Vec<u8>, S::Error> {
        Elements::<u8, Same>::at_most(self.0).visit_seq(sequence)
    }
}

fn bytes_visitor(max: u32) -> BytesVisitor {
    BytesVisitor(usize::try_from(max).unwrap_or(usize::MAX))
}

impl<const MAX: u32> Serialize for Opaque<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for Opaque<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(bytes_visitor(MAX)).map(Into::into)
    }
}

impl<const MAX: usize> Serialize for SmallOpaque<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for SmallOpaque<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_bytes(BytesVisitor(MAX))?;
        SmallOpaque::new(&bytes).map_err(de::Error::custom)
    }
}

impl<const MAX: u32> Serialize for XdrString<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.to_str() {
            Ok(text) if serializer.is_human_readable() => serializer.serialize_str(text),
            _ => serializer.serialize_bytes(self),
        }
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for XdrString<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = if deserializer.is_human_readable() {
            deserializer.deserialize_any(bytes_visitor(MAX))?
        } else {
            deserializer.deserialize_byte_buf(bytes_visitor(MAX))?
        };
        Ok(bytes.into())
    }
}

macro_rules! as_inner {
    ($($type:ident($inner:ty);)*) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$inner>::deserialize(deserializer).map($type)
            }
        }
    )* };
}

as_inner! {
    Char(i8);
    UnsignedChar(u8);
    Quadruple([u8; 16]);
}
