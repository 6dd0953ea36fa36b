//! Programs whose arguments and results borrow: what rpcrdma-xdrgen's `borrowed` output stands on.
//!
//! A server's arguments borrow the call, and its result is encoded before what it borrows goes away: a handler gets an
//! [`Answer`] to give it to. A client's arguments may borrow anything; its result borrows the reply, which it gets as a
//! [`Reply`] that owns the message.
//!
//! Nothing borrowed is DDP-eligible. A peer may place eligible arguments in chunks all the same, as its binding allows:
//! they are gathered before the arguments are decoded, which is the one copy that is made.

use alloc::borrow::Cow;
use core::marker::PhantomData;

use bytes::Bytes;

use super::{Program, Reject, ReplyBounds};
use crate::xdr::{
    self, Decode, Encode, Error, ErrorKind, Items, Layout, Lengths, Limits, Reader, Reducer, Sink, Size,
};

/// One procedure of a program version, with arguments and a result that may borrow.
pub trait Procedure: 'static {
    /// The program version it belongs to.
    type Program: Program;
    /// What it takes.
    type Args<'a>: Encode + Decode<'a> + Send + Sync;
    /// What it returns.
    type Res<'a>: Encode + Decode<'a> + Send + Sync;
    /// Its number.
    const NUMBER: u32;
    /// Its name in the document.
    const NAME: &'static str;

    /// The largest arguments in bytes, behind the RPC header.
    const LARGEST_ARGS: Size = <Self::Args<'static> as Layout>::LENGTHS.max;
    /// The largest result in bytes that its type allows, behind the RPC header.
    const LARGEST_RES: Size = <Self::Res<'static> as Layout>::LENGTHS.max;

    /// How large the reply to these arguments can be, as [`super::Procedure::reply_bounds`] says it.
    fn reply_bounds(args: &Self::Args<'_>) -> ReplyBounds {
        let _ = args;
        ReplyBounds::of::<Self::Res<'static>>()
    }
}

/// A procedure as a [`Caller`](super::Caller) calls it: the arguments are encoded before the call, the result is decoded
/// from the reply as often as one likes.
#[derive(Clone, Copy, Debug)]
pub struct Lent<Q>(PhantomData<fn() -> Q>);

impl<Q: Procedure> super::Procedure for Lent<Q> {
    type Program = Q::Program;
    type Args = Arguments<Q>;
    type Res = Reply<Q>;
    const NUMBER: u32 = Q::NUMBER;
    const NAME: &'static str = Q::NAME;

    fn reply_bounds(args: &Arguments<Q>) -> ReplyBounds {
        args.bounds
    }
}

/// Encoded arguments. What they borrowed may go.
#[derive(Clone, Debug)]
pub struct Arguments<Q> {
    encoded: Result<Bytes, Error>,
    bounds: ReplyBounds,
    procedure: PhantomData<fn() -> Q>,
}

impl<Q: Procedure> Arguments<Q> {
    /// Encodes arguments. If they break a bound of their type, encoding this says so: the call fails as a call with such
    /// arguments does.
    #[must_use]
    pub fn new(args: &Q::Args<'_>) -> Self {
        Arguments { encoded: xdr::to_bytes(args), bounds: Q::reply_bounds(args), procedure: PhantomData }
    }
}

impl<Q: Procedure> Layout for Arguments<Q> {
    const LENGTHS: Lengths =
        Lengths::between(<Q::Args<'static>>::LENGTHS.min, <Q::Args<'static>>::LENGTHS.max);
    const HELD: Items = Items::NONE;
}

impl<Q: Procedure> Encode for Arguments<Q> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        match &self.encoded {
            Ok(bytes) => sink.put(bytes),
            Err(error) => Err(error.clone()),
        }
    }
}

impl<'de, Q: Procedure> Decode<'de> for Arguments<Q> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let start = reader.clone();
        let bounds = Q::reply_bounds(&Q::Args::<'de>::decode(reader)?);
        Ok(Arguments { encoded: Ok(read_since(start, reader)?), bounds, procedure: PhantomData })
    }
}

/// A reply: a message that was checked, and the result that borrows it.
#[derive(Clone, Debug)]
pub struct Reply<Q> {
    bytes: Bytes,
    limits: Limits,
    procedure: PhantomData<fn() -> Q>,
}

impl<Q: Procedure> Reply<Q> {
    /// The result.
    ///
    /// # Errors
    /// None, if its type decodes the same bytes in one way only: they were decoded when they arrived.
    pub fn get(&self) -> Result<Q::Res<'_>, Error> {
        Q::Res::decode(&mut Reader::from_bytes(&self.bytes).with_limits(self.limits))
    }

    /// The result as it came.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl<Q: Procedure> Layout for Reply<Q> {
    const LENGTHS: Lengths = Lengths::between(<Q::Res<'static>>::LENGTHS.min, <Q::Res<'static>>::LENGTHS.max);
    const HELD: Items = Items::NONE;
}

impl<Q: Procedure> Encode for Reply<Q> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put(&self.bytes)
    }
}

impl<'de, Q: Procedure> Decode<'de> for Reply<Q> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let start = reader.clone();
        Q::Res::<'de>::decode(reader)?;
        Ok(Reply { limits: reader.limits(), bytes: read_since(start, reader)?, procedure: PhantomData })
    }
}

/// What was read since the reader was at `start`, sharing its memory.
///
/// # Errors
/// [`ErrorKind::ItemUnused`] if a part of it came in a chunk: it would not be there when it is read again.
fn read_since(mut start: Reader<'_>, reader: &Reader<'_>) -> Result<Bytes, Error> {
    let (from, len) = (start.position(), start.remaining().saturating_sub(reader.remaining()));
    if reader.position().wrapping_sub(from) != len as u64 {
        return Err(start.error(ErrorKind::ItemUnused { position: from }));
    }
    start.opaque_bytes(len)
}

/// A call's arguments in one piece, for them to be decoded from.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    bytes: Cow<'a, [u8]>,
    limits: Limits,
}

impl<'a> Call<'a> {
    /// Puts what came in chunks in its place. Copies only if there is such.
    ///
    /// # Errors
    /// [`Reject::GarbageArguments`] if a chunk has no place.
    pub fn new(args: Reader<'a>) -> Result<Self, Reject> {
        let limits = args.limits();
        let bytes = args.gathered().map_err(|_| Reject::GarbageArguments)?;
        Ok(Call { bytes, limits })
    }

    /// The arguments, decoded to the last byte.
    ///
    /// # Errors
    /// [`Reject::GarbageArguments`].
    pub fn arguments<Q: Procedure>(&self) -> Result<Q::Args<'_>, Reject> {
        let mut reader = Reader::from_slice(&self.bytes).with_limits(self.limits);
        let args = Q::Args::decode(&mut reader).and_then(|args| reader.finish().map(|()| args));
        args.map_err(|_| Reject::GarbageArguments)
    }
}

/// Where a handler puts its result.
#[derive(Debug)]
#[must_use = "a call is answered by `with`"]
pub struct Answer<'r, Q> {
    reply: &'r mut Reducer,
    procedure: PhantomData<fn() -> Q>,
}

impl<'r, Q: Procedure> Answer<'r, Q> {
    /// The answer that goes behind what `reply` holds.
    pub fn new(reply: &'r mut Reducer) -> Self {
        Answer { reply, procedure: PhantomData }
    }

    /// Answers. What the result borrows may go.
    ///
    /// # Errors
    /// [`Reject::SystemError`] if the result breaks a bound of its type.
    pub fn with(self, result: &Q::Res<'_>) -> Result<Answered, Reject> {
        result.encode(self.reply).map_err(|_| Reject::SystemError)?;
        Ok(Answered(()))
    }
}

/// That a call was answered: what a handler has to show.
#[derive(Debug)]
pub struct Answered(());

impl Answered {
    /// Nothing more is to be done.
    pub fn done(self) {}
}
