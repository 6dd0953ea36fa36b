//! A client over RPCSEC_GSS (RFC 2203).

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::debug;

use super::CallError;
use super::carrier::{Carrier, Sends};
use crate::proto::program::{AuthStat, Caller, Procedure, Program, ReplyBounds};
use crate::proto::rdma::Traffic;
use crate::proto::rpc::gss::{GssFailure, GssMechanism, GssService, GssSession, GssStep};
use crate::wire::rpc::{MAX_SEQUENCE, ReplyError};
use crate::xdr::Size;

/// The most tokens that the two ends exchange for one context.
const MOST_STEPS: usize = 16;

/// A client of one program version that shows who calls, and that protects arguments and results if it is to. Clones share
/// the context.
///
/// The context is made by the first call. When the server says that it is no good any more, or its sequence numbers are
/// used up, a new one is made and the call, which was not executed, is made again. The last clone that is dropped tells
/// the server that the context is not needed any more, by a task of its own.
///
/// No call is executed twice: a server takes each sequence number once, and a [`Client`](super::Client) or
/// [`TcpClient`](super::TcpClient) sends it once. A call that was sent when its connection ends fails with
/// [`FailReason::Closed`](crate::proto::rdma::FailReason::Closed): it may have been executed, and whether it is to be made again
/// its caller knows. Calls that were not sent go by the next connection, with the same context.
pub struct GssClient<C: Carrier<P>, P: Program>(Arc<Shared<C, P>>);

struct Shared<C: Carrier<P>, P: Program> {
    carrier: C,
    mechanism: Arc<dyn GssMechanism>,
    service: GssService,
    /// Held while a context is made, so that one is.
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    program: PhantomData<fn() -> P>,
}

/// A context and its sequence numbers.
struct Live {
    session: GssSession,
    numbers: Numbers,
}

impl<C: Carrier<P>, P: Program> GssClient<C, P> {
    /// Calls over `carrier` with contexts that `mechanism` makes.
    pub fn new(carrier: C, mechanism: impl GssMechanism + 'static, service: GssService) -> Self {
        GssClient(Arc::new(Shared {
            carrier,
            mechanism: Arc::new(mechanism),
            service,
            live: tokio::sync::Mutex::new(None),
            program: PhantomData,
        }))
    }

    /// Makes the context now, over another carrier to the same server: a token that is long goes better over TCP (RFC 8166
    /// section 8.2.2.1). The server has to have the same contexts at both addresses.
    ///
    /// # Errors
    /// As a call. The client is not changed then.
    pub async fn establish_over(&self, carrier: &impl Carrier<P>) -> Result<(), CallError> {
        let live = self.make(carrier).await?;
        *self.0.live.lock().await = Some(Arc::new(live));
        Ok(())
    }

    /// Who the server is, in the mechanism's form of a name, by the context that is in use; one is made if there is none.
    ///
    /// # Errors
    /// As a call.
    pub async fn server(&self) -> Result<Vec<u8>, CallError> {
        Ok(self.live().await?.session.peer().to_vec())
    }

    /// Tells the server that the context is not needed any more. A further call makes a new one.
    ///
    /// # Errors
    /// As a call; the context is not used any more all the same.
    pub async fn destroy(&self) -> Result<(), CallError> {
        // Not held while the server is told, which may take long: a new context can be made meanwhile.
        let live = self.0.live.lock().await.take();
        match live {
            Some(live) => destroy::<C, P>(&self.0.carrier, &live).await,
            None => Ok(()),
        }
    }

    /// The context, made if there is none.
    async fn live(&self) -> Result<Arc<Live>, CallError> {
        let mut live = self.0.live.lock().await;
        if let Some(live) = &*live {
            return Ok(live.clone());
        }
        let made = Arc::new(self.make(&self.0.carrier).await?);
        Ok(live.insert(made).clone())
    }

    /// A context that is of no use any more, unless another one has taken its place.
    async fn retire(&self, old: &Arc<Live>) {
        let mut live = self.0.live.lock().await;
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(live, old)) {
            *live = None;
        }
    }

    async fn make(&self, carrier: &impl Carrier<P>) -> Result<Live, CallError> {
        let (mechanism, service) = (&*self.0.mechanism, self.0.service);
        let mut handle = Bytes::new();
        let session = match exchange_tokens(carrier, mechanism, service, &mut handle).await {
            // A token that is sent again on a new connection finds that the server has had it. Then all begins anew.
            Err(error) if !handle.is_empty() && is_unknown(&error) => {
                debug!(%error, "the context is begun anew");
                exchange_tokens(carrier, mechanism, service, &mut Bytes::new()).await?
            }
            other => other?,
        };
        debug!(?session, "a context was made");
        let numbers = Numbers::new(session.window());
        Ok(Live { session, numbers })
    }

    async fn transact<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let first = self.live().await?;
        match self.once::<Q>(&first, args).await {
            Err(error) if wants_another(&error) => {
                debug!(%error, "a new context is needed");
                self.retire(&first).await;
                let second = self.live().await?;
                self.once::<Q>(&second, args).await
            }
            other => other,
        }
    }

    async fn once<Q: Procedure<Program = P>>(
        &self,
        live: &Live,
        args: &Q::Args,
    ) -> Result<Q::Res, CallError> {
        let carrier = &self.0.carrier;
        let xid = carrier.next_xid();
        let exchange = async {
            let Live { session, numbers } = live;
            let number = numbers.take().await?;
            let message = session.call::<Q>(xid, number.0, args, carrier.min_item())?;
            let bounds = session.reply_bounds(Q::reply_bounds(args));
            let (reply, traffic): (_, Traffic) = carrier.carry(Q::NAME, message, bounds, Sends::Once).await?;
            Ok((session.result(xid, number.0, &reply)?, traffic))
        };
        carrier.observe::<Q>(xid, exchange).await
    }
}

/// Makes a context: tokens go back and forth until both ends are content. `handle` is what the server calls it, once it has
/// said so.
async fn exchange_tokens<P: Program>(
    carrier: &impl Carrier<P>,
    mechanism: &dyn GssMechanism,
    service: GssService,
    handle: &mut Bytes,
) -> Result<GssSession, CallError> {
    let mut exchange = mechanism.begin().map_err(GssFailure::from)?;
    let mut step = exchange.step(&[]).map_err(GssFailure::from)?;
    for _ in 0..MOST_STEPS {
        let (token, context) = match step {
            GssStep::Continue(token) => (token, None),
            GssStep::Done(token, context) => (token, Some(context)),
        };
        let xid = carrier.next_xid();
        let message = GssSession::init_call::<P>(xid, handle, token.into())?;
        let bounds = GssSession::init_bounds(mechanism.longest_token());
        let (reply, _) = carrier.carry("RPCSEC_GSS_INIT", message, bounds, Sends::Repeated).await?;
        let answer = GssSession::init_answer(xid, &reply)?;
        match (context, answer.complete) {
            (Some(context), true) => return Ok(GssSession::new(context, service, answer)?),
            (Some(_), false) => {
                return Err(GssFailure::Protocol("it wants a token when there are no more").into());
            }
            (None, complete) => {
                step = exchange.step(&answer.token).map_err(GssFailure::from)?;
                if complete {
                    return match step {
                        GssStep::Done(token, context) if token.is_empty() => {
                            Ok(GssSession::new(context, service, answer)?)
                        }
                        _ => Err(GssFailure::Protocol("it takes no token, and there is one").into()),
                    };
                }
                *handle = answer.handle;
            }
        }
    }
    Err(GssFailure::Protocol("there is no end of tokens").into())
}

async fn destroy<C: Carrier<P>, P: Program>(carrier: &C, live: &Live) -> Result<(), CallError> {
    let number = live.numbers.take().await?;
    let xid = carrier.next_xid();
    let message = live.session.destroy::<P>(xid, number.0)?;
    let none = ReplyBounds { whole: Size::ZERO, reduced: Size::ZERO, item: Size::ZERO, items: Size::ZERO };
    let bounds = live.session.reply_bounds(none);
    let (reply, _) = carrier.carry("RPCSEC_GSS_DESTROY", message, bounds, Sends::Once).await?;
    Ok(live.session.ended(xid, number.0, &reply)?)
}

/// Whether the server does not know the context that is being made.
fn is_unknown(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Gss(GssFailure::Rejected(ReplyError::Auth(
            AuthStat::RejectedCredential | AuthStat::GssCredentialProblem | AuthStat::GssContextProblem
        )))
    )
}

/// Whether the call was not executed, and would be with another context.
fn wants_another(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Gss(
            GssFailure::Exhausted
                | GssFailure::Rejected(ReplyError::Auth(
                    AuthStat::GssCredentialProblem | AuthStat::GssContextProblem
                ))
        )
    )
}

impl<C: Carrier<P>, P: Program> Caller<P> for GssClient<C, P> {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        self.transact::<Q>(args).await
    }
}

impl<C: Carrier<P>, P: Program> Clone for GssClient<C, P> {
    fn clone(&self) -> Self {
        GssClient(self.0.clone())
    }
}

impl<C: Carrier<P>, P: Program> fmt::Debug for GssClient<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssClient").field("service", &self.0.service).finish_non_exhaustive()
    }
}

impl<C: Carrier<P>, P: Program> Drop for Shared<C, P> {
    fn drop(&mut self) {
        if let (Some(live), Ok(runtime)) = (self.live.get_mut().take(), Handle::try_current()) {
            let carrier = self.carrier.clone();
            runtime.spawn(async move {
                if let Err(error) = destroy::<C, P>(&carrier, &live).await {
                    debug!(%error, "a context is left to the server");
                }
            });
        }
    }
}

/// Gives out sequence numbers. The newest is never so far ahead of the oldest in use that a server could take the oldest
/// for one that came before.
struct Numbers {
    window: u32,
    state: Mutex<State>,
    given_back: Notify,
}

struct State {
    next: u32,
    in_use: BTreeSet<u32>,
}

impl Numbers {
    fn new(window: u32) -> Self {
        let state = Mutex::new(State { next: 1, in_use: BTreeSet::new() });
        Numbers { window, state, given_back: Notify::new() }
    }

    /// The next number, once there is one. It is in use until it is dropped.
    async fn take(&self) -> Result<Number<'_>, GssFailure> {
        loop {
            let mut changed = std::pin::pin!(self.given_back.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                let next = state.next;
                if next >= MAX_SEQUENCE {
                    return Err(GssFailure::Exhausted);
                }
                if state.in_use.first().is_none_or(|oldest| next - oldest < self.window) {
                    state.next += 1;
                    state.in_use.insert(next);
                    return Ok(Number(next, self));
                }
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sequence number in use.
struct Number<'a>(u32, &'a Numbers);

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.1.state().in_use.remove(&self.0);
        self.1.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_number_is_within_the_window_of_the_oldest() {
        let numbers = Numbers::new(3);
        let first = numbers.take().await.unwrap();
        let second = numbers.take().await.unwrap();
        let third = numbers.take().await.unwrap();
        assert_eq!((first.0, second.0, third.0), (1, 2, 3));
        drop(second);
        let mut fourth = Box::pin(numbers.take());
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), &mut fourth).await;
        assert!(waits.is_err(), "the first one is still in use");
        drop(first);
        assert_eq!(fourth.await.unwrap().0, 4);
    }

    #[tokio::test]
    async fn there_is_an_end_of_numbers() {
        let numbers = Numbers::new(3);
        numbers.state().next = MAX_SEQUENCE - 1;
        assert_eq!(numbers.take().await.unwrap().0, MAX_SEQUENCE - 1);
        assert!(matches!(numbers.take().await, Err(GssFailure::Exhausted)));
    }
}
