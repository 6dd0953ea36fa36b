use std::future::{Future, ready};
use std::pin::Pin;

use bytes::Bytes;
use rpcrdma_runtime::program::{
    Binding, CallContext, Credential, Procedure, Program, Reject, ReplyBounds, Service,
};
use rpcrdma_runtime::wire::rpc::CallHeader;
use rpcrdma_runtime::xdr::{
    Decode, Encode, Layout, Message, Opaque, Reader, Reducer, Sink, Size, Xdr, encoded_len,
};

/// A program with one procedure, which takes and returns two eligible items. The caller chooses all sizes.
#[derive(Debug)]
pub struct Echo;

impl Program for Echo {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "ECHO_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "ECHO")];
}

impl Binding for Echo {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &["rdma", "rdma6"];
}

/// The requested lengths of the parts of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Xdr)]
pub struct ResultLengths {
    /// The length of the part that is not eligible.
    pub note: u32,
    /// The length of the first eligible item.
    pub item: u32,
    /// The length of the second eligible item.
    pub other: u32,
}

/// The arguments of the procedure.
#[derive(Clone, Debug, PartialEq, Xdr)]
pub struct Args {
    /// The seed for the contents of `first`, `note` and `second`.
    pub seed: u32,
    /// An eligible item.
    #[ddp_eligible]
    pub first: Opaque,
    /// Data that is not eligible.
    pub note: Opaque,
    /// Another eligible item.
    #[ddp_eligible]
    pub second: Opaque,
    /// The lengths of the parts of the result.
    pub want: ResultLengths,
}

/// The result of the procedure.
#[derive(Clone, Debug, PartialEq, Xdr)]
pub struct Res {
    /// The seed of the arguments.
    pub seed: u32,
    /// A digest of the arguments.
    pub digest: u64,
    /// Data that is not eligible.
    pub note: Opaque,
    /// An eligible item.
    #[ddp_eligible]
    pub item: Opaque,
    /// A fixed value between the eligible items.
    pub mark: u32,
    /// Another eligible item.
    #[ddp_eligible]
    pub other: Opaque,
}

/// Returns `len` bytes, each of which depends on the seed and on its offset.
#[must_use]
pub fn pattern(seed: u32, len: usize) -> Bytes {
    let mut at = u64::from(seed) << 32;
    let mut data = Vec::with_capacity(len.next_multiple_of(8));
    // Append eight bytes at a time, because a run spends most of its time here.
    while data.len() < len {
        at += 1;
        let mixed = (at ^ (at >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        data.extend_from_slice(&(mixed ^ (mixed >> 32)).to_be_bytes());
    }
    data.truncate(len);
    data.into()
}

impl Args {
    /// Creates arguments with the given lengths of the first item, the note and the second item.
    #[must_use]
    pub fn new(seed: u32, [first, note, second]: [usize; 3], want: ResultLengths) -> Self {
        Args {
            seed,
            first: pattern(seed, first).into(),
            note: pattern(seed.wrapping_add(1), note).into(),
            second: pattern(seed.wrapping_add(2), second).into(),
            want,
        }
    }

    fn digest(&self) -> u64 {
        let parts = [self.first.as_bytes(), self.note.as_bytes(), self.second.as_bytes()];
        let mut sum = u64::from(self.seed);
        for part in parts {
            sum = sum.wrapping_mul(31).wrapping_add(part.len() as u64);
            let (words, rest) = part.as_chunks();
            for word in words {
                sum = (sum ^ u64::from_be_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
            for byte in rest {
                sum = sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte);
            }
        }
        sum
    }

    /// Returns the result of the procedure for these arguments.
    #[must_use]
    pub fn result(&self) -> Res {
        let part = |seed: u32, len: u32| Opaque::from(pattern(seed, len as usize));
        Res {
            seed: self.seed,
            digest: self.digest(),
            note: part(self.seed.wrapping_add(3), self.want.note),
            item: part(self.seed.wrapping_add(4), self.want.item),
            mark: 0x6d61_726b,
            other: part(self.seed.wrapping_add(5), self.want.other),
        }
    }
}

impl Procedure for Echo {
    type Program = Echo;
    type Args = Args;
    type Res = Res;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "ECHO";

    fn reply_bounds(args: &Args) -> ReplyBounds {
        let want = args.want;
        let padded = |len: u32| Size::padded(u64::from(len));
        let reduced = Size::Bounded(Res::LENGTHS.min).plus(padded(want.note));
        ReplyBounds {
            unreduced: reduced.plus(padded(want.item)).plus(padded(want.other)),
            reduced,
            item: Size::Bounded(u64::from(want.item.max(want.other))),
            items: Size::Bounded(2),
        }
    }
}

impl Service for Echo {
    fn program(&self) -> u32 {
        <Echo as Program>::NUMBER
    }

    fn version(&self) -> u32 {
        <Echo as Program>::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        mut args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        if context.procedure != <Echo as Procedure>::NUMBER {
            return Box::pin(ready(Err(Reject::ProcedureUnavailable)));
        }
        let decoded = Args::decode(&mut args).and_then(|decoded| args.finish().map(|()| decoded));
        let answered = decoded
            .map_err(|_| Reject::GarbageArguments)
            .and_then(|decoded| decoded.result().encode(reply).map_err(|_| Reject::SystemError));
        Box::pin(ready(answered))
    }
}

/// Encodes a call with these arguments. Eligible items of at least `min_item` bytes are moved out of the
/// stream.
///
/// # Panics
/// Panics if the arguments cannot be encoded.
#[must_use]
pub fn call(xid: u32, args: &Args, min_item: usize) -> Message {
    let mut reducer = Reducer::new(min_item);
    let header = CallHeader {
        xid,
        program: <Echo as Program>::NUMBER,
        version: <Echo as Program>::VERSION,
        procedure: <Echo as Procedure>::NUMBER,
        credential: Credential::None,
    };
    header.encode(&mut reducer).expect("a header without a credential");
    args.encode(&mut reducer).expect("unbounded arguments");
    debug_assert_eq!(reducer.position(), 40 + encoded_len(args).expect("unbounded arguments"));
    reducer.into_message()
}
