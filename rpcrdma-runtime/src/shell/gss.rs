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
use super::message_transport::{MessageTransport, Sends};
use crate::proto::call::Traffic;
use crate::proto::program::{AuthStat, Caller, Procedure, Program, ReplyBounds, checks};
use crate::proto::rpc::gss::{
    GssError, GssExchange, GssFailure, GssMechanism, GssService, GssSession, GssStep,
};
use crate::wire::rpc::{MAX_SEQUENCE, ReplyError};
use crate::xdr::Size;

/// Maximum number of round trips to establish one context.
const MOST_STEPS: usize = 16;

/// A client of one program version over RPCSEC_GSS: authenticated, and with integrity or privacy if
/// requested. Clones share the context.
///
/// The first call establishes the context. If the server rejects it, it has expired, or its sequence numbers
/// are exhausted, the client establishes a new one and repeats the call, which was not executed. Dropping the
/// last clone spawns a task that tells the server to destroy the context.
///
/// No call executes twice: a server accepts each sequence number once, and a [`Client`](super::Client) or
/// [`TcpClient`](super::TcpClient) sends it once. A call that was sent fails with
/// [`TransportError::Closed`](crate::proto::call::TransportError::Closed) when its connection ends. The call
/// may have been executed, and the caller decides whether to repeat it. Calls that were not sent use the next
/// connection with the same context.
pub struct GssClient<C: MessageTransport<P>, P: Program>(Arc<Shared<C, P>>);

struct Shared<C: MessageTransport<P>, P: Program> {
    carrier: C,
    mechanism: Arc<dyn GssMechanism>,
    service: GssService,
    /// Held while a context is established, so that only one is established at a time.
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    program: PhantomData<fn() -> P>,
}

/// A context and its sequence numbers.
struct Live {
    session: GssSession,
    numbers: Numbers,
}

impl<C: MessageTransport<P>, P: Program> GssClient<C, P> {
    /// Returns a client that calls over `carrier` with contexts of `mechanism`.
    pub fn new(carrier: C, mechanism: impl GssMechanism + 'static, service: GssService) -> Self {
        GssClient(Arc::new(Shared {
            carrier,
            mechanism: Arc::new(mechanism),
            service,
            live: tokio::sync::Mutex::new(None),
            program: PhantomData,
        }))
    }

    /// Establishes the context over another carrier to the same server. Long tokens suit TCP better (RFC
    /// 8166 section 8.2.2.1). The server must share its contexts between both addresses.
    ///
    /// # Errors
    /// The errors of a call. They leave the client unchanged.
    pub async fn establish_over(&self, carrier: &impl MessageTransport<P>) -> Result<(), CallError> {
        let live = self.make(carrier).await?;
        *self.0.live.lock().await = Some(Arc::new(live));
        Ok(())
    }

    /// Returns the server's name in the mechanism's form, from the current context. Establishes a context
    /// first if necessary.
    ///
    /// # Errors
    /// The errors of a call.
    pub async fn server(&self) -> Result<Vec<u8>, CallError> {
        Ok(self.live().await?.session.peer().to_vec())
    }

    /// Tells the server to destroy the context. A later call establishes a new one.
    ///
    /// # Errors
    /// The errors of a call. The client drops the context even then.
    pub async fn destroy(&self) -> Result<(), CallError> {
        // The lock is released first: the exchange may take long, and a new context can be established
        // meanwhile.
        let live = self.0.live.lock().await.take();
        match live {
            Some(live) => destroy::<C, P>(&self.0.carrier, &live).await,
            None => Ok(()),
        }
    }

    /// Returns the established context, or establishes one.
    async fn live(&self) -> Result<Arc<Live>, CallError> {
        let mut live = self.0.live.lock().await;
        if let Some(live) = &*live {
            return Ok(live.clone());
        }
        let made = Arc::new(self.make(&self.0.carrier).await?);
        Ok(live.insert(made).clone())
    }

    /// Drops an unusable context, unless another one has replaced it.
    async fn retire(&self, old: &Arc<Live>) {
        let mut live = self.0.live.lock().await;
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(live, old)) {
            *live = None;
        }
    }

    async fn make(&self, carrier: &impl MessageTransport<P>) -> Result<Live, CallError> {
        let (mechanism, service) = (&self.0.mechanism, self.0.service);
        let mut handle = Bytes::new();
        let session = match exchange_tokens(carrier, mechanism, service, &mut handle).await {
            // The server drops the context when a token is retransmitted on a new connection. Start again.
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
        const { checks::procedure::<Q>() };
        let carrier = &self.0.carrier;
        let xid = carrier.next_xid();
        let exchange = async {
            let Live { session, numbers } = live;
            let number = numbers.take().await?;
            let message = session.call::<Q>(xid, number.0, args, carrier.min_item()).map_err(unsent)?;
            let bounds = session.reply_bounds(Q::reply_bounds(args));
            let (reply, traffic): (_, Traffic) = carrier.carry(Q::NAME, message, bounds, Sends::Once).await?;
            Ok((session.result(xid, number.0, &reply)?, traffic))
        };
        carrier.observe::<Q>(xid, exchange).await
    }
}

/// Runs a step of a mechanism on the blocking pool: it may ask a key server on another machine.
async fn step(
    step: impl FnOnce() -> Result<(Box<dyn GssExchange>, GssStep), GssError> + Send + 'static,
) -> Result<(Box<dyn GssExchange>, GssStep), CallError> {
    match tokio::task::spawn_blocking(step).await {
        Ok(step) => Ok(step.map_err(GssFailure::from)?),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(CallError::Disconnected),
        },
    }
}

/// Establishes a context by exchanging tokens until both sides are done. `handle` is the context handle,
/// once the server has sent it.
async fn exchange_tokens<P: Program>(
    carrier: &impl MessageTransport<P>,
    mechanism: &Arc<dyn GssMechanism>,
    service: GssService,
    handle: &mut Bytes,
) -> Result<GssSession, CallError> {
    let own = mechanism.clone();
    let first = move || {
        let mut exchange = own.begin()?;
        let step = exchange.step(&[])?;
        Ok((exchange, step))
    };
    let (mut exchange, mut next) = step(first).await?;
    for _ in 0..MOST_STEPS {
        let (token, context) = match next {
            GssStep::Continue(token) => (token, None),
            GssStep::Done(token, context) => (token, Some(context)),
        };
        let xid = carrier.next_xid();
        let message = GssSession::init_call::<P>(xid, handle, token.into())?;
        let bounds = GssSession::init_bounds(mechanism.longest_token());
        let (reply, _) = carrier.carry("RPCSEC_GSS_INIT", message, bounds, Sends::Repeated).await?;
        let answer = GssSession::init_answer(xid, &reply).map_err(|failure| match failure {
            GssFailure::Refused(error) => GssFailure::Refused(mechanism.explain(error)),
            other => other,
        })?;
        match (context, answer.complete) {
            (Some(context), true) => return Ok(GssSession::new(context, service, answer)?),
            (Some(_), false) => {
                return Err(GssFailure::Protocol("it expects a token after the last one").into());
            }
            (None, complete) => {
                let token = answer.token.clone();
                (exchange, next) = step(move || {
                    let step = exchange.step(&token)?;
                    Ok((exchange, step))
                })
                .await?;
                if complete {
                    return match next {
                        GssStep::Done(token, context) if token.is_empty() => {
                            Ok(GssSession::new(context, service, answer)?)
                        }
                        _ => Err(GssFailure::Protocol("it rejects a pending token").into()),
                    };
                }
                *handle = answer.handle;
            }
        }
    }
    Err(GssFailure::Protocol("too many tokens").into())
}

async fn destroy<C: MessageTransport<P>, P: Program>(carrier: &C, live: &Live) -> Result<(), CallError> {
    let number = live.numbers.take().await?;
    let xid = carrier.next_xid();
    let message = live.session.destroy::<P>(xid, number.0)?;
    let none = ReplyBounds { whole: Size::ZERO, reduced: Size::ZERO, item: Size::ZERO, items: Size::ZERO };
    let bounds = live.session.reply_bounds(none);
    let (reply, _) = carrier.carry("RPCSEC_GSS_DESTROY", message, bounds, Sends::Once).await?;
    Ok(live.session.ended(xid, number.0, &reply)?)
}

/// Returns the failure of a call that was not sent.
fn unsent(failure: GssFailure) -> GssFailure {
    match failure {
        GssFailure::Mechanism(error) if error.is_expired() => GssFailure::Expired,
        other => other,
    }
}

/// Returns true if the server does not know the context being established.
fn is_unknown(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Gss(GssFailure::Rejected(ReplyError::Auth(
            AuthStat::RejectedCredential | AuthStat::GssCredentialProblem | AuthStat::GssContextProblem
        )))
    )
}

/// Returns true if the call was not executed and a new context may make it succeed.
fn wants_another(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Gss(
            GssFailure::Exhausted
                | GssFailure::Expired
                | GssFailure::Rejected(ReplyError::Auth(
                    AuthStat::GssCredentialProblem | AuthStat::GssContextProblem
                ))
        )
    )
}

impl<C: MessageTransport<P>, P: Program> Caller<P> for GssClient<C, P> {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        self.transact::<Q>(args).await
    }
}

impl<C: MessageTransport<P>, P: Program> Clone for GssClient<C, P> {
    fn clone(&self) -> Self {
        GssClient(self.0.clone())
    }
}

impl<C: MessageTransport<P>, P: Program> fmt::Debug for GssClient<C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssClient").field("service", &self.0.service).finish_non_exhaustive()
    }
}

impl<C: MessageTransport<P>, P: Program> Drop for Shared<C, P> {
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

/// Allocates sequence numbers. The newest stays so close to the oldest in use that the oldest is inside the
/// server's window.
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

    /// Waits for the next number. It is in use until it is dropped.
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
