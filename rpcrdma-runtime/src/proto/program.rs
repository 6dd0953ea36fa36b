//! Programs: the traits that generated clients and servers build on (RFC 5531 section 8).
//!
//! For each version of a program, rpcrdma-xdrgen emits a marker type that implements [`Program`], and one
//! type per procedure that implements [`Procedure`]. It also emits a client that works with any [`Caller`],
//! and a server that implements [`Service`]. A version with an Upper-Layer Binding (RFC 8166 section 6) also
//! implements [`Binding`]. Over RPC-over-RDMA, a client can call only versions with a binding. Generated code
//! for borrowed data builds on [`borrowed`].

pub mod borrowed;
pub(crate) mod checks;
mod origin;
mod uncached;

use alloc::boxed::Box;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;

pub use self::origin::{Extensions, Origin};
pub use self::uncached::Uncached;
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
    /// The program's name in its document, or the version's name if the implementation gives none.
    const PROGRAM_NAME: &'static str = Self::NAME;
    /// The number and name of each procedure, in the document's order. Calls to other procedures do not
    /// compile.
    const PROCEDURES: &'static [(u32, &'static str)];
    /// Whether the version is [`BackwardOnly`]. If true, a call by the connecting client does not compile.
    const BACKWARD_ONLY: bool = false;
}

/// A program version with an Upper-Layer Binding (RFC 8166 section 6). A binding without eligible
/// items is allowed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Upper-Layer Binding, so it cannot be called over RPC-over-RDMA",
    label = "no binding",
    note = "write a binding for it (`NAME.ddp.toml`; `eligible = []` if nothing may be placed directly) and pass it to rpcrdma-xdrgen with the document (RFC 8166 section 6); a `BackwardOnly` program is called by the server"
)]
pub trait Binding: Program {
    /// The port assigned to the program's RPC-over-RDMA service, if any. With port 0, a client's call over
    /// RPC-over-RDMA and [`Config::of`](crate::proto::rdma::Config::of) do not compile.
    const PORT: Option<u16>;
    /// The netids under which the service is registered (RFC 8166 section 5): `rdma`, `rdma6` or both.
    const NETIDS: &'static [&'static str];
    /// The recommended inline threshold for both directions, in bytes: a multiple of 1,024 up to 262,144.
    /// [`Config::of`](crate::proto::rdma::Config::of) proposes this threshold to the peer.
    const INLINE_THRESHOLD: Option<u32> = None;
}

/// A program version that is called only in the backward direction, by the server (RFC 8167). Its messages
/// have no chunks, so none of their items are eligible. `#[xdr(backward)]` on a message type enforces this
/// rule. Such a version cannot also be a [`Binding`].
///
/// An implementation also needs [`Directed`] and [`Program::BACKWARD_ONLY`], which fix the direction:
///
/// ```
/// use rpcrdma_runtime::program::{Backward, BackwardOnly, Directed, Program};
///
/// struct Callback;
///
/// impl Program for Callback {
///     const NUMBER: u32 = 0x4000_0000;
///     const VERSION: u32 = 1;
///     const NAME: &'static str = "CALLBACK_V1";
///     const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
///     const BACKWARD_ONLY: bool = true;
/// }
///
/// impl Directed for Callback {
///     type Direction = Backward;
/// }
/// impl BackwardOnly for Callback {}
/// ```
///
/// A call to such a version by the connecting client does not compile:
///
/// ```compile_fail,E0080
/// # use rpcrdma_runtime::program::{Backward, BackwardOnly, Caller, Directed, Procedure, Program};
/// # struct Callback;
/// # impl Program for Callback {
/// #     const NUMBER: u32 = 0x4000_0000;
/// #     const VERSION: u32 = 1;
/// #     const NAME: &'static str = "CALLBACK_V1";
/// #     const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
/// #     const BACKWARD_ONLY: bool = true;
/// # }
/// # impl Directed for Callback {
/// #     type Direction = Backward;
/// # }
/// # impl BackwardOnly for Callback {}
/// # struct Null;
/// # impl Procedure for Null {
/// #     type Program = Callback;
/// #     type Args = ();
/// #     type Res = ();
/// #     const NUMBER: u32 = 0;
/// #     const NAME: &'static str = "NULL";
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = rpcrdma_runtime::TcpClient::connect("127.0.0.1:7800").await?;
/// client.call::<Null>(&()).await?;
/// # Ok(())
/// # }
/// ```
pub trait BackwardOnly: Directed<Direction: IsBackward> {}

/// The direction in which a program version is called. Every [`Binding`] has the direction [`Forward`]. A
/// `Binding` that is also [`BackwardOnly`] does not compile.
#[diagnostic::on_unimplemented(
    message = "the direction of calls of `{Self}` is unknown",
    label = "no direction",
    note = "a `Binding` is called by the client, and optionally by the server; if only the server calls it, write `impl Directed for {Self} {{ type Direction = Backward; }}`"
)]
pub trait Directed: Program {
    /// [`Forward`] or [`Backward`].
    type Direction;
}

/// The direction of program versions that the connecting client calls. The server may also call such
/// versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {}

/// The direction of program versions that only the server calls (RFC 8167). The server is the peer that
/// accepted the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backward {}

/// Implemented by [`Backward`], but not by [`Forward`].
#[diagnostic::on_unimplemented(
    message = "a program version cannot be both a `Binding` and `BackwardOnly`",
    label = "its direction is `{Self}`",
    note = "if only the server calls it (RFC 8167), remove `Binding` and write `type Direction = Backward` in an `impl Directed`; if the client calls it, remove `BackwardOnly`"
)]
pub trait IsBackward {}

impl IsBackward for Backward {}

#[diagnostic::do_not_recommend] // a type without a direction does not necessarily need a binding
impl<P: Binding> Directed for P {
    type Direction = Forward;
}

/// One procedure of a program version.
pub trait Procedure: 'static {
    /// The program version that defines the procedure.
    type Program: Program;
    /// The arguments.
    type Args: Xdr + Send + Sync;
    /// The result.
    type Res: Xdr + Send;
    /// The procedure's number.
    const NUMBER: u32;
    /// The procedure's name in the document.
    const NAME: &'static str;
    /// The maximum size of every reply. The default is the bound of the result type; a binding specifies
    /// bounds that the XDR lacks (RFC 8166 section 6.2). If a bound of the result type fits in a chunk, calls
    /// with a smaller bound in `MAX_REPLY` do not compile.
    const MAX_REPLY: ReplyBounds = ReplyBounds::of::<Self::Res>();
    /// Whether a result may contain more eligible items than the number of Write chunks that its call offers
    /// (at most 16). The remaining items stay in the stream of the reply. If false, a client's calls over
    /// RPC-over-RDMA compile only if [`MAX_REPLY`](Procedure::MAX_REPLY) allows at most 16 items.
    const EXCESS_ITEMS: bool = false;

    /// Returns the bounds of the reply to a call with these arguments. The default is
    /// [`MAX_REPLY`](Procedure::MAX_REPLY). If the bounds do not depend on the arguments, define only that
    /// constant, which is checked at compile time. The result of this function is not checked.
    fn reply_bounds(args: &Self::Args) -> ReplyBounds {
        let _ = args;
        Self::MAX_REPLY
    }
}

/// The maximum sizes of a reply in bytes, and its maximum number of eligible items. The sizes exclude the RPC
/// header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyBounds {
    /// The result including its eligible items.
    pub unreduced: Size,
    /// The result without its eligible items.
    pub reduced: Size,
    /// The largest eligible item, without padding.
    pub item: Size,
    /// The maximum number of eligible items. A call offers at most this many Write chunks, and at most 16.
    pub items: Size,
}

impl ReplyBounds {
    /// Returns the bounds of a reply whose result has the type `T`.
    #[must_use]
    pub const fn of<T: Layout>() -> Self {
        ReplyBounds {
            unreduced: T::LENGTHS.max,
            reduced: T::LENGTHS.max_reduced,
            item: T::HELD.largest,
            items: T::HELD.count,
        }
    }

    /// Returns these bounds, changed for a reply that must not be reduced ([`Credential::allows_reduction`]).
    #[must_use]
    pub const fn without_reduction(self) -> Self {
        ReplyBounds {
            unreduced: self.unreduced,
            reduced: self.unreduced,
            item: Size::ZERO,
            items: Size::ZERO,
        }
    }

    /// Limits the size of each eligible item, and thus of the whole result.
    #[must_use]
    pub const fn with_item(self, item: u64) -> Self {
        let item = self.item.min(Size::Bounded(item));
        let unreduced = self.unreduced.min(self.reduced.plus(item.with_padding().repeated(self.items)));
        ReplyBounds { item, unreduced, ..self }
    }

    /// Limits the size of the result without its eligible items, and thus of the whole result.
    #[must_use]
    pub const fn with_reduced(self, reduced: u64) -> Self {
        let reduced = self.reduced.min(Size::Bounded(reduced));
        let unreduced = self.unreduced.min(reduced.plus(self.item.with_padding().repeated(self.items)));
        ReplyBounds { reduced, unreduced, ..self }
    }

    /// Limits the size of the whole result, and thus of each eligible item and of the result without its
    /// eligible items.
    #[must_use]
    pub const fn with_unreduced(self, unreduced: u64) -> Self {
        let unreduced = self.unreduced.min(Size::Bounded(unreduced));
        ReplyBounds {
            unreduced,
            reduced: self.reduced.min(unreduced),
            item: self.item.min(unreduced),
            ..self
        }
    }
}

/// A transport for calls. The error type is the same for all programs.
pub trait CallTransport {
    /// The reason why a call has no result.
    type Error;
}

/// The future of a call. The call starts when the future is first polled. Dropping the future abandons the
/// call. If the peer can still access memory of the call, the transport keeps this memory until it is fenced.
pub type CallFuture<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// A transport for calls to a program version. A transport that needs a binding implements this trait only
/// for `P: `[`Binding`].
pub trait Caller<P: Program>: CallTransport {
    /// Makes one call.
    fn call<'a, Q: Procedure<Program = P>>(
        &'a self,
        args: &'a Q::Args,
    ) -> CallFuture<'a, Q::Res, Self::Error>;
}

/// The procedure, the credential and the origin of a call.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The call's XID.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version number.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// The caller's credential. AUTH_SYS is a claim, not a proof.
    pub credential: Credential,
    /// The caller's address, if the transport provides it.
    pub peer: Option<SocketAddr>,
    /// Further objects from the connection and from RPCSEC_GSS.
    pub extensions: Extensions,
}

impl CallContext {
    /// Returns the context of a call. Moves the credential out of `call`.
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

/// The server of one program version. The generated `Server<H>` implements this trait for every handler.
pub trait Service: Send + Sync + 'static {
    /// The program's number.
    fn program(&self) -> u32;

    /// The version's number.
    fn version(&self) -> u32;

    /// Returns true if calls with credentials of this flavor are accepted, in addition to AUTH_NONE and
    /// AUTH_SYS. The default accepts no other flavor, so calls with another flavor fail with AUTH_ERROR. A
    /// server with a `GssServer` does not call this method for RPCSEC_GSS.
    fn accepts_flavor(&self, flavor: u32) -> bool {
        let _ = flavor;
        false
    }

    /// Returns true if the duplicate-request cache may cache the replies of this procedure and replay them to
    /// retransmitted calls. The default is true. [`Uncached`] disables caching for a service.
    fn is_cached(&self, procedure: u32) -> bool {
        let _ = procedure;
        true
    }

    /// Returns the maximum length of the arguments of any procedure, in bytes. A server accepts arguments of
    /// this length, up to half of its memory budget, even if they exceed the default limits of its
    /// transports. A client over TCP does the same for backward calls, with the default budget. The default
    /// is 0: only the default limits apply.
    fn max_args(&self) -> u64 {
        0
    }

    /// Decodes the arguments, runs the procedure and encodes the result into `reply`, which already contains
    /// the RPC reply header.
    ///
    /// A call that the duplicate-request cache tracks runs to completion even if its connection is lost or
    /// its server has stopped. Its future is dropped at an await point only when the Tokio runtime shuts
    /// down. Any other call is also dropped when its connection closes. If a procedure must complete even
    /// then, run it in a separate task that this future awaits.
    ///
    /// # Errors
    /// Returns a [`Reject`], which is sent to the caller. The content of `reply` is dropped.
    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>>;
}

/// Runs one procedure for a generated dispatcher: decodes all bytes of the arguments, runs `call` and encodes
/// the result into `reply`.
///
/// # Errors
/// Returns the [`Reject`] that `call` returns, [`Reject::GarbageArguments`] if the arguments cannot be
/// decoded, or [`Reject::SystemError`] if the result cannot be encoded.
pub async fn answer<Args, Res, Call, Answer>(
    args: Reader<'_>,
    reply: &mut Reducer,
    call: Call,
) -> Result<(), Reject>
where
    Args: Xdr,
    Res: Xdr,
    Call: FnOnce(Args) -> Answer,
    Answer: Future<Output = Result<Res, Reject>>,
{
    let args = args.decode_all().map_err(|_| Reject::GarbageArguments)?;
    let result = call(args).await?;
    result.encode(reply).map_err(|error| {
        reply.fail(error);
        Reject::SystemError
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_only_narrowed() {
        let of_type = ReplyBounds {
            unreduced: Size::Unbounded,
            reduced: Size::Bounded(100),
            item: Size::Unbounded,
            items: Size::Bounded(1),
        };
        let narrowed = of_type.with_item(10);
        assert_eq!(narrowed.item, Size::Bounded(10));
        assert_eq!(narrowed.unreduced, Size::Bounded(112));
        assert_eq!(narrowed.with_item(1000), narrowed);
        let listing =
            ReplyBounds { reduced: Size::Unbounded, item: Size::ZERO, items: Size::ZERO, ..of_type };
        assert_eq!(listing.with_unreduced(500).reduced, Size::Bounded(500));
    }
}
