//! The steps of a call in every client: encode the call, wait for the reply, and decode the reply.

use std::future::poll_fn;
use std::task::Poll;

use super::checks;
use super::error::{CallError, CallTarget};
use super::result_memory::Lease;
use super::waiters::Submit;
use crate::proto::call::{CallId, IncomingReply, Traffic, TransportError};
use crate::proto::program::{Credential, Procedure, Program};
use crate::proto::session::SessionCall;
use crate::proto::work::CloseReason::{Io, Peer, Terminated};
use crate::wire::rpc::{CallHeader, decode_reply};
use crate::xdr::{Encode, Message, Reader, Reducer, Size};

/// Encodes a call into `sink`, which must be empty.
pub(super) fn encode<Q: Procedure>(
    xid: u32,
    credential: &Credential,
    args: &Q::Args,
    mut sink: Reducer,
) -> Result<Message, CallError> {
    const { checks::procedure::<Q>() };
    let header = CallHeader {
        xid,
        program: <Q::Program as Program>::NUMBER,
        version: <Q::Program as Program>::VERSION,
        procedure: Q::NUMBER,
        credential: credential.clone(),
    };
    header.encode(&mut sink).and_then(|()| args.encode(&mut sink)).map_err(CallError::Encode)?;
    Ok(sink.into_message())
}

/// Decodes the result of a call. If the call offered no Write chunks, the result's first DDP-eligible item is
/// copied to `memory`.
pub(super) fn decode<Q: Procedure>(
    xid: u32,
    reply: &IncomingReply,
    memory: Option<&Lease>,
) -> Result<(Q::Res, Traffic), CallError> {
    let mut reader = Reader::new(&reply.message);
    if let Some(Lease(memory)) = memory {
        reader = reader.with_item_memory(&**memory);
    }
    decode_reply(&mut reader, xid)?;
    let result = reader.decode_all().map_err(CallError::Decode)?;
    Ok((result, reply.traffic))
}

pub(super) fn target<Q: Procedure>() -> CallTarget {
    CallTarget { program: <Q::Program as Program>::NAME, procedure: Q::NAME, peer: None }
}

/// The size in bytes of the longest call that every server is assumed to accept.
const SHORT: u64 = 4096;

/// Makes a call and waits for its reply. Dropping the future abandons the call. Errors about sizes name the
/// target. `reply` is the bound of the reply for [`CallError::TooLong`].
///
/// # Errors
/// An error of [`Submit::submit`], or the reason why the call failed.
pub(super) async fn transact(
    calls: &(impl Submit + ?Sized),
    target: CallTarget,
    reply: Option<Size>,
    call: SessionCall,
) -> Result<IncomingReply, CallError> {
    let bytes = call.message.unreduced_len();
    let mut new = Some(call);
    let mut abandon = Abandon { calls, call: None };
    let outcome = poll_fn(|cx| match (new.take(), abandon.call) {
        (Some(call), _) => {
            abandon.call = Some(calls.submit(call, cx.waker())?);
            Poll::Pending
        }
        (None, Some(call)) => calls.poll_outcome(call, cx).map(Ok::<_, CallError>),
        (None, None) => Poll::Pending,
    })
    .await?;
    abandon.call = None;
    let target = || Box::new(target);
    let too_long = |source| CallError::TooLong { target: target(), bytes, reply, source };
    match outcome {
        Some(Err(TransportError::UnboundedReply)) => Err(CallError::UnboundedReply { target: target() }),
        Some(Err(TransportError::ReplyTooLong { bytes, max })) => {
            Err(CallError::ReplyTooLong { target: target(), bytes, max })
        }
        Some(Err(TransportError::Timeout(after))) => Err(CallError::Timeout(after)),
        Some(Err(source @ TransportError::Chunk)) => Err(too_long(source)),
        Some(Err(source @ TransportError::Closed(Peer | Io(_) | Terminated { .. }))) if bytes > SHORT => {
            Err(too_long(source))
        }
        Some(outcome) => Ok(outcome?),
        None => Err(CallError::Disconnected),
    }
}

struct Abandon<'a, C: Submit + ?Sized> {
    calls: &'a C,
    call: Option<CallId>,
}

impl<C: Submit + ?Sized> Drop for Abandon<'_, C> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.calls.cancel(call);
        }
    }
}
