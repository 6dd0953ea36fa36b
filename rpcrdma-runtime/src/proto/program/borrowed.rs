//! Programs with borrowed arguments and results, for the `borrowed` output of rpcrdma-xdrgen.
//!
//! A server's arguments borrow from the call. A handler passes its result to an [`Answer`], which encodes it
//! while the borrowed data is still alive. A client's arguments may borrow from any memory. A client gets a
//! [`BorrowedReply`] that owns the message, and the result borrows from that reply.
//!
//! Borrowed data is not DDP-eligible. A peer may still place arguments in chunks if they are eligible in
//! its binding. The server then copies the stream and the chunks into one buffer before decoding.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::marker::PhantomData;

use bytes::Bytes;

use super::{CallFuture, Caller, Program, Reject, ReplyBounds};
use crate::xdr::{
    self, Decode, DecodeLimits, Encode, Error, ErrorKind, Items, Layout, Lengths, Reader, Reducer, Sink,
};

/// One procedure of a program version, with arguments and a result that may borrow.
pub trait BorrowedProcedure: 'static {
    /// The program version that defines the procedure.
    type Program: Program;
    /// The arguments.
    type Args<'a>: Encode + Decode<'a> + Send + Sync;
    /// The result.
    type Res<'a>: Encode + Decode<'a> + Send + Sync;
    /// The procedure's number.
    const NUMBER: u32;
    /// The procedure's name in the document.
    const NAME: &'static str;
    /// The maximum size of every reply: see [`super::Procedure::MAX_REPLY`].
    const MAX_REPLY: ReplyBounds = ReplyBounds::of::<Self::Res<'static>>();

    /// Returns the bounds of the reply to a call with these arguments: see
    /// [`super::Procedure::reply_bounds`].
    fn reply_bounds(args: &Self::Args<'_>) -> ReplyBounds {
        let _ = args;
        Self::MAX_REPLY
    }
}

/// Adapts a [`BorrowedProcedure`] to [`super::Procedure`], so that any [`Caller`] can call it. The arguments
/// are encoded before the call. The result can be decoded from the reply any number of times.
#[derive(Clone, Copy, Debug)]
pub struct Lent<Q>(PhantomData<fn() -> Q>);

impl<Q: BorrowedProcedure> super::Procedure for Lent<Q> {
    type Program = Q::Program;
    type Args = Arguments<Q>;
    type Res = BorrowedReply<Q>;
    const NUMBER: u32 = Q::NUMBER;
    const NAME: &'static str = Q::NAME;
    const MAX_REPLY: ReplyBounds = Q::MAX_REPLY.without_reduction();

    fn reply_bounds(args: &Arguments<Q>) -> ReplyBounds {
        args.bounds
    }
}

/// Makes one call. Encodes the arguments immediately, so that the future does not borrow them. `C` must be
/// `Sync`, because the future is `Send` and borrows the caller.
pub fn call<'a, Q: BorrowedProcedure, C: Caller<Q::Program> + Sync>(
    caller: &'a C,
    args: &Q::Args<'_>,
) -> CallFuture<'a, BorrowedReply<Q>, C::Error> {
    let args = Arguments::new(args);
    Box::pin(async move { caller.call::<Lent<Q>>(&args).await })
}

/// Encoded arguments, which borrow nothing.
#[derive(Clone, Debug)]
pub struct Arguments<Q> {
    encoded: Result<Bytes, Error>,
    bounds: ReplyBounds,
    procedure: PhantomData<fn() -> Q>,
}

impl<Q: BorrowedProcedure> Arguments<Q> {
    /// Encodes arguments. If the arguments break a bound, encoding the returned value fails, and so does
    /// the call.
    #[must_use]
    pub fn new(args: &Q::Args<'_>) -> Self {
        Arguments { encoded: xdr::to_bytes(args), bounds: Q::reply_bounds(args), procedure: PhantomData }
    }
}

impl<Q: BorrowedProcedure> Layout for Arguments<Q> {
    const LENGTHS: Lengths =
        Lengths::between(<Q::Args<'static>>::LENGTHS.min, <Q::Args<'static>>::LENGTHS.max);
    const HELD: Items = Items::NONE;
}

impl<Q: BorrowedProcedure> Encode for Arguments<Q> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put(self.encoded.as_ref().map_err(Error::clone)?)
    }
}

impl<'de, Q: BorrowedProcedure> Decode<'de> for Arguments<Q> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let start = reader.clone();
        let bounds = Q::reply_bounds(&Q::Args::<'de>::decode(reader)?);
        Ok(Arguments { encoded: Ok(read_since(start, reader)?), bounds, procedure: PhantomData })
    }
}

/// A validated reply that owns its message and lends the result.
#[derive(Clone, Debug)]
pub struct BorrowedReply<Q> {
    bytes: Bytes,
    limits: DecodeLimits,
    procedure: PhantomData<fn() -> Q>,
}

impl<Q: BorrowedProcedure> BorrowedReply<Q> {
    /// Returns the result, which borrows from the reply.
    ///
    /// # Errors
    /// Never fails if the decoding of the type is deterministic: the bytes were already decoded on arrival.
    pub fn get(&self) -> Result<Q::Res<'_>, Error> {
        Q::Res::decode(&mut Reader::from_bytes(&self.bytes).with_limits(self.limits).read_before())
    }

    /// Returns the encoded result.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl<Q: BorrowedProcedure> Layout for BorrowedReply<Q> {
    const LENGTHS: Lengths = Lengths::between(<Q::Res<'static>>::LENGTHS.min, <Q::Res<'static>>::LENGTHS.max);
    const HELD: Items = Items::NONE;
}

impl<Q: BorrowedProcedure> Encode for BorrowedReply<Q> {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put(&self.bytes)
    }
}

impl<'de, Q: BorrowedProcedure> Decode<'de> for BorrowedReply<Q> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Error> {
        let start = reader.clone();
        Q::Res::<'de>::decode(reader)?;
        Ok(BorrowedReply {
            limits: reader.limits(),
            bytes: read_since(start, reader)?,
            procedure: PhantomData,
        })
    }
}

/// Returns the bytes that `reader` has read since `start`, an earlier copy of `reader`.
///
/// # Errors
/// Returns [`ErrorKind::ItemUnused`] if a chunk contains part of the bytes: a second decoding would not find
/// the chunk.
fn read_since(mut start: Reader<'_>, reader: &Reader<'_>) -> Result<Bytes, Error> {
    let (from, len) = (start.position(), start.remaining().saturating_sub(reader.remaining()));
    if reader.position().wrapping_sub(from) != len as u64 {
        return Err(start.error(ErrorKind::ItemUnused { position: from }));
    }
    start.opaque_bytes(len)
}

/// The contiguous bytes of a call's arguments, from which the arguments are decoded.
#[derive(Clone, Debug)]
pub struct BorrowedCall<'a> {
    bytes: Cow<'a, [u8]>,
    limits: DecodeLimits,
}

impl<'a> BorrowedCall<'a> {
    /// Inserts the content of the call's Read chunks into the stream. Copies the stream only if the call has
    /// Read chunks.
    ///
    /// # Errors
    /// [`Reject::GarbageArguments`] if a chunk's position is invalid.
    pub fn new(args: Reader<'a>) -> Result<Self, Reject> {
        let limits = args.limits();
        let bytes = args.gathered().map_err(|_| Reject::GarbageArguments)?;
        Ok(BorrowedCall { bytes, limits })
    }

    /// Decodes all bytes of the arguments.
    ///
    /// # Errors
    /// Returns [`Reject::GarbageArguments`] if the arguments cannot be decoded.
    pub fn arguments<Q: BorrowedProcedure>(&self) -> Result<Q::Args<'_>, Reject> {
        let reader = Reader::from_slice(&self.bytes).with_limits(self.limits);
        reader.decode_all().map_err(|_| Reject::GarbageArguments)
    }
}

/// Encodes a handler's result.
#[derive(Debug)]
#[must_use = "call `with` to answer the call"]
pub struct Answer<'r, Q> {
    reply: &'r mut Reducer,
    procedure: PhantomData<fn() -> Q>,
}

impl<'r, Q: BorrowedProcedure> Answer<'r, Q> {
    /// Creates an answer that appends the result to `reply`.
    pub fn new(reply: &'r mut Reducer) -> Self {
        Answer { reply, procedure: PhantomData }
    }

    /// Encodes the result. The borrow of `result` ends when this method returns.
    ///
    /// # Errors
    /// [`Reject::SystemError`] if the result cannot be encoded.
    pub fn with(self, result: &Q::Res<'_>) -> Result<Answered, Reject> {
        match result.encode(self.reply) {
            Ok(()) => Ok(Answered(())),
            Err(error) => {
                self.reply.fail(error);
                Err(Reject::SystemError)
            }
        }
    }
}

/// Proof that a handler answered its call.
#[derive(Debug)]
pub struct Answered(());

impl Answered {
    /// Consumes the proof.
    pub fn done(self) {}
}
