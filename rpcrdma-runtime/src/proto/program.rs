//! Programs: what generated clients and servers stand on (RFC 5531 section 8).
//!
//! rpcrdma-xdrgen emits, for each version of a program, a marker that is a [`Program`], one [`Procedure`] a procedure, a
//! client over any [`Caller`] and a server that is a [`Service`]. A version with an Upper-Layer Binding
//! (RFC 8166 section 6) is also [`Binding`], and only such a version can be called over RPC-over-RDMA. What it emits
//! for borrowed data stands on [`borrowed`].

pub mod borrowed;
mod origin;
mod unremembered;

use alloc::boxed::Box;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;

pub use self::origin::{Extensions, Origin};
pub use self::unremembered::Unremembered;
use crate::wire::rpc::RpcCall;
pub use crate::wire::rpc::{AuthStat, AuthSys, Credential, Reject};
use crate::xdr::{Layout, Reader, Reducer, Size, Xdr};

/// One version of a remote program.
pub trait Program: 'static {
    /// The program's number.
    const NUMBER: u32;
    /// The version's number.
    const VERSION: u32;
    /// The version's name in its document.
    const NAME: &'static str;
    /// Its procedures: number and name in the document, in the document's order.
    const PROCEDURES: &'static [(u32, &'static str)];
}

/// A program version with an Upper-Layer Binding (RFC 8166 section 6), be it one that makes nothing eligible.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Upper-Layer Binding, so it cannot be called over RPC-over-RDMA",
    label = "no binding",
    note = "write a binding for it (`NAME.ddp.toml`; `eligible = []` if nothing may be placed directly) and give it to rpcrdma-xdrgen with the document (RFC 8166 section 6); a program that is `BackwardOnly` is called by the end that was connected to"
)]
pub trait Binding: Program {
    /// The port of its RPC-over-RDMA service, if one is assigned.
    const PORT: Option<u16>;
    /// The netids under which it is registered (RFC 8166 section 5).
    const NETIDS: &'static [&'static str];
    /// The inline threshold that it recommends for both directions, in bytes: what
    /// [`Config::of`](crate::proto::rdma::Config::of) proposes to the peer.
    const INLINE_THRESHOLD: Option<u32> = None;
}

/// A program version that is called in the backward direction only, by the end that was connected to (RFC 8167). Its
/// messages have no chunks, so nothing of them is eligible, and it is no [`Binding`]: the end that connects has no client
/// of it. `#[xdr(backward)]` on a type of its messages holds it to that.
///
/// Whoever implements it says so twice, by [`Directed`], of which a program version has one only:
///
/// ```
/// use rpcrdma_runtime::proto::program::{Backward, BackwardOnly, Directed, Program};
///
/// struct Callback;
///
/// impl Program for Callback {
///     const NUMBER: u32 = 0x4000_0000;
///     const VERSION: u32 = 1;
///     const NAME: &'static str = "CALLBACK_V1";
///     const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
/// }
///
/// impl Directed for Callback {
///     type Direction = Backward;
/// }
/// impl BackwardOnly for Callback {}
/// ```
pub trait BackwardOnly: Directed<Direction: IsBackward> {}

/// In which direction a program version is called. What is a [`Binding`] has [`Forward`], and so can be no
/// [`BackwardOnly`]: to be both does not compile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say in which direction it is called",
    label = "no direction",
    note = "a `Binding` is called by the end that connects, and may be by the other; for what only the other calls write `impl Directed for {Self} {{ type Direction = Backward; }}`"
)]
pub trait Directed: Program {
    /// [`Forward`] or [`Backward`].
    type Direction;
}

/// The direction of calls by the end that connects; the other end may make such calls, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {}

/// The direction of calls by the end that was connected to, and by no other (RFC 8167).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backward {}

/// [`Backward`] and nothing else.
#[diagnostic::on_unimplemented(
    message = "a program version cannot be a `Binding` and `BackwardOnly`",
    label = "its direction is `{Self}`",
    note = "leave out `Binding` and write `type Direction = Backward` in an `impl Directed` if only the end that was connected to calls it (RFC 8167); leave out `BackwardOnly` if the end that connects does"
)]
pub trait IsBackward {}

impl IsBackward for Backward {}

#[diagnostic::do_not_recommend] // what lacks a direction need not have a binding
impl<P: Binding> Directed for P {
    type Direction = Forward;
}

/// One procedure of a program version.
pub trait Procedure: 'static {
    /// The program version it belongs to.
    type Program: Program;
    /// What it takes.
    type Args: Xdr + Send + Sync;
    /// What it returns.
    type Res: Xdr + Send;
    /// Its number.
    const NUMBER: u32;
    /// Its name in the document.
    const NAME: &'static str;

    /// The largest arguments in bytes, behind the RPC header. `rpcrdma-xdrgen sizes` prints this and the next three.
    const LARGEST_ARGS: Size = <Self::Args as Layout>::LENGTHS.max;
    /// The same with the eligible items out of the stream.
    const LARGEST_ARGS_REDUCED: Size = <Self::Args as Layout>::LENGTHS.max_reduced;
    /// The largest result in bytes that its type allows, behind the RPC header. Where a binding says more, the
    /// function `reply_bounds` does.
    const LARGEST_RES: Size = <Self::Res as Layout>::LENGTHS.max;
    /// The same with the eligible items out of the stream.
    const LARGEST_RES_REDUCED: Size = <Self::Res as Layout>::LENGTHS.max_reduced;

    /// How large the reply to these arguments can be. The default is what the result's type allows; a binding
    /// narrows it where the XDR gives no bound (RFC 8166 section 6.2).
    fn reply_bounds(args: &Self::Args) -> ReplyBounds {
        let _ = args;
        ReplyBounds::of::<Self::Res>()
    }
}

/// How large a reply can be, behind its RPC header. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyBounds {
    /// The result with its eligible items in the stream.
    pub whole: Size,
    /// The result with its eligible items out of the stream.
    pub reduced: Size,
    /// The largest eligible item, without padding.
    pub item: Size,
    /// How many eligible items there can be: so many Write chunks are offered.
    pub items: Size,
}

impl ReplyBounds {
    /// What a type allows.
    #[must_use]
    pub const fn of<T: Layout>() -> Self {
        ReplyBounds {
            whole: T::LENGTHS.max,
            reduced: T::LENGTHS.max_reduced,
            item: T::HELD.largest,
            items: T::HELD.count,
        }
    }

    /// The same for a reply that nothing may be taken out of ([`Credential::allows_reduction`]).
    #[must_use]
    pub const fn unreduced(self) -> Self {
        ReplyBounds { whole: self.whole, reduced: self.whole, item: Size::ZERO, items: Size::ZERO }
    }

    /// The same with a bound on each eligible item, and so on the whole.
    #[must_use]
    pub const fn with_item(self, item: u64) -> Self {
        let item = self.item.min(Size::Bounded(item));
        let whole = self.whole.min(self.reduced.plus(item.with_padding().repeated(self.items)));
        ReplyBounds { item, whole, ..self }
    }

    /// The same with a bound on the result without its eligible items, and so on the whole.
    #[must_use]
    pub const fn with_reduced(self, reduced: u64) -> Self {
        let reduced = self.reduced.min(Size::Bounded(reduced));
        let whole = self.whole.min(reduced.plus(self.item.with_padding().repeated(self.items)));
        ReplyBounds { reduced, whole, ..self }
    }

    /// The same with a bound on the whole result, and so on the result without its items.
    #[must_use]
    pub const fn with_whole(self, whole: u64) -> Self {
        let whole = self.whole.min(Size::Bounded(whole));
        ReplyBounds { whole, reduced: self.reduced.min(whole), item: self.item.min(whole), ..self }
    }
}

/// What carries calls of a program version. A transport that needs a binding implements it for
/// `P: `[`Binding`] only.
pub trait Caller<P: Program> {
    /// Why a call has no result.
    type Error;

    /// Makes one call. Dropping the future abandons the call; memory that the peer may still reach stays with
    /// the transport until it is fenced.
    fn call<Q: Procedure<Program = P>>(
        &self,
        args: &Q::Args,
    ) -> impl Future<Output = Result<Q::Res, Self::Error>> + Send;
}

/// Who calls what.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The call's transaction id.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// What the caller says of itself. AUTH_SYS is a claim, not a proof.
    pub credential: Credential,
    /// The caller's address, where the transport has one.
    pub peer: Option<SocketAddr>,
    /// What the connection that the call came by has to offer besides.
    pub extensions: Extensions,
}

impl CallContext {
    /// What a handler is told of a call that came from there. The credential moves out of the call.
    pub(crate) fn new(call: &mut RpcCall, origin: Origin) -> Self {
        let header = &mut call.header;
        CallContext {
            xid: header.xid,
            program: header.program,
            version: header.version,
            procedure: header.procedure,
            credential: core::mem::take(&mut header.credential),
            peer: origin.peer,
            extensions: origin.extensions,
        }
    }
}

/// The server of one program version. rpcrdma-xdrgen's `Server<H>` is one for every handler.
pub trait Service: Send + Sync + 'static {
    /// The program's number.
    fn program(&self) -> u32;

    /// The version's number.
    fn version(&self) -> u32;

    /// Whether calls with credentials of this flavor are taken, besides AUTH_NONE and AUTH_SYS. By default none
    /// is: such calls are answered with AUTH_ERROR. A server with contexts of RPCSEC_GSS does not ask for that flavor.
    fn accepts_flavor(&self, flavor: u32) -> bool {
        let _ = flavor;
        false
    }

    /// Whether a server's duplicate-request cache remembers calls of this procedure, so that one that comes again is not run
    /// again. By default it does; [`Unremembered`] makes a service one whose calls it does not.
    fn remembers(&self, procedure: u32) -> bool {
        let _ = procedure;
        true
    }

    /// Decodes the arguments, runs the procedure and encodes the result into `reply`, which holds the RPC reply
    /// header already.
    ///
    /// A call that the server's duplicate-request cache remembers is gone through with, whatever becomes of its connection;
    /// the future is dropped where it waits only when a server that stops is out of time. Without a cache, and for what it
    /// does not remember, it is dropped when the connection that the call came by goes away, too: nobody is left to
    /// answer. Then a procedure that must be gone through with once it has begun belongs in a task of its own, for which
    /// this future waits.
    ///
    /// # Errors
    /// [`Reject`]: whatever was put in `reply` is dropped, and this goes to the caller.
    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>>;
}

/// What a generated dispatcher does for one procedure: decodes the arguments to their last byte, makes the call, and
/// encodes the result into `reply`.
///
/// # Errors
/// [`Reject::GarbageArguments`] if the arguments cannot be decoded, what `call` refuses, and [`Reject::SystemError`]
/// if its result breaks a bound of its type.
pub async fn answer<Args, Res, Call, Answer>(
    mut args: Reader<'_>,
    reply: &mut Reducer,
    call: Call,
) -> Result<(), Reject>
where
    Args: Xdr,
    Res: Xdr,
    Call: FnOnce(Args) -> Answer,
    Answer: Future<Output = Result<Res, Reject>>,
{
    let decoded = Args::decode(&mut args).and_then(|decoded| args.finish().map(|()| decoded));
    let result = call(decoded.map_err(|_| Reject::GarbageArguments)?).await?;
    result.encode(reply).map_err(|_| Reject::SystemError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_only_narrows() {
        let of_type = ReplyBounds {
            whole: Size::Unbounded,
            reduced: Size::Bounded(100),
            item: Size::Unbounded,
            items: Size::Bounded(1),
        };
        let narrowed = of_type.with_item(10);
        assert_eq!(narrowed.item, Size::Bounded(10));
        assert_eq!(narrowed.whole, Size::Bounded(112));
        assert_eq!(narrowed.with_item(1000), narrowed);
        let listing =
            ReplyBounds { reduced: Size::Unbounded, item: Size::ZERO, items: Size::ZERO, ..of_type };
        assert_eq!(listing.with_whole(500).reduced, Size::Bounded(500));
    }
}
