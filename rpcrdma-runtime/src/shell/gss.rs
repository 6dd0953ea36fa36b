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
use super::checks;
use super::message_transport::{MessageTransport, Sends};
use crate::proto::call::Traffic;
use crate::proto::program::{AuthStat, CallFuture, CallTransport, Caller, Procedure, Program, ReplyBounds};
use crate::proto::rpc::gss::{
    GssError, GssExchange, GssFailure, GssMechanism, GssService, GssSession, GssStep,
};
use crate::wire::rpc::{MAX_SEQUENCE, ReplyError};

/// Maximum number of round trips to establish one context.
const MAX_STEPS: usize = 16;

/// A client of one program version over RPCSEC_GSS: authenticated, and with integrity or privacy if
/// requested. Clones share the context.
///
/// The first call establishes the context. If the server rejects the context, the context has expired, or its
/// sequence numbers are exhausted, the client establishes a new context. It then repeats the call, which was
/// not executed. Dropping the last clone in a tokio runtime spawns a task that tells the server to destroy
/// the context.
///
/// No call executes twice: a server accepts each sequence number once, and a [`Client`](super::Client) or
/// [`TcpClient`](super::TcpClient) sends each sequence number once. A call that was sent fails with
/// [`TransportError::Closed`](crate::proto::call::TransportError::Closed) when its connection ends. If the
/// call is longer than 4 KiB, [`CallError::TooLong`] may wrap that error. The call may have been executed,
/// and the caller decides whether to repeat it. Calls that were not sent use the next connection with the
/// same context.
///
/// ```
/// use rpcrdma_runtime::program::Binding;
/// use rpcrdma_runtime::{Client, GssClient, GssMechanism, GssService};
///
/// /// Returns a client with integrity protection, for a generated `Client` type.
/// fn protect<P: Binding>(client: Client, user: impl GssMechanism + 'static) -> GssClient<Client, P> {
///     GssClient::new(client, user, GssService::Integrity)
/// }
/// ```
pub struct GssClient<C: MessageTransport<P>, P: Program>(Arc<Shared<C, P>>);

struct Shared<C: MessageTransport<P>, P: Program> {
    transport: C,
    mechanism: Arc<dyn GssMechanism>,
    service: GssService,
    /// Locked while a call establishes a context, so that concurrent calls share one context.
    context: tokio::sync::Mutex<Option<Arc<Context>>>,
    program: PhantomData<fn() -> P>,
}

struct Context {
    session: GssSession,
    numbers: Numbers,
}

impl<C: MessageTransport<P>, P: Program> GssClient<C, P> {
    /// Returns a client that calls over `transport` with contexts of `mechanism`.
    pub fn new(transport: C, mechanism: impl GssMechanism + 'static, service: GssService) -> Self {
        GssClient(Arc::new(Shared {
            transport,
            mechanism: Arc::new(mechanism),
            service,
            context: tokio::sync::Mutex::new(None),
            program: PhantomData,
        }))
    }

    /// Establishes the context over another transport to the same server. Some NFS clients establish contexts
    /// over TCP (RFC 8166 section 8.2.2.1), which suits long tokens better. The server must share its
    /// contexts between both transports.
    ///
    /// # Errors
    /// The errors of a call. An error leaves the client unchanged.
    pub async fn establish_over(&self, transport: &impl MessageTransport<P>) -> Result<(), CallError> {
        let context = self.establish(transport).await?;
        *self.0.context.lock().await = Some(Arc::new(context));
        Ok(())
    }

    /// Returns the server's name in the mechanism's format, from the current context. Establishes a context
    /// first if necessary.
    ///
    /// # Errors
    /// The errors of a call.
    pub async fn server(&self) -> Result<Vec<u8>, CallError> {
        Ok(self.context().await?.session.peer().to_vec())
    }

    /// Tells the server to destroy the context. A later call establishes a new context.
    ///
    /// # Errors
    /// The errors of a call. The client drops the context even if the call fails.
    pub async fn destroy(&self) -> Result<(), CallError> {
        // Releases the lock before the exchange, which may take a long time, so that other calls can
        // establish a new context meanwhile.
        let context = self.0.context.lock().await.take();
        match context {
            Some(context) => destroy::<C, P>(&self.0.transport, &context).await,
            None => Ok(()),
        }
    }

    async fn context(&self) -> Result<Arc<Context>, CallError> {
        let mut context = self.0.context.lock().await;
        if let Some(context) = &*context {
            return Ok(context.clone());
        }
        let established = Arc::new(self.establish(&self.0.transport).await?);
        Ok(context.insert(established).clone())
    }

    async fn drop_context(&self, old: &Arc<Context>) {
        let mut context = self.0.context.lock().await;
        if context.as_ref().is_some_and(|context| Arc::ptr_eq(context, old)) {
            *context = None;
        }
    }

    async fn establish(&self, transport: &impl MessageTransport<P>) -> Result<Context, CallError> {
        let (mechanism, service) = (&self.0.mechanism, self.0.service);
        let mut handle = Bytes::new();
        let session = match exchange_tokens(transport, mechanism, service, &mut handle).await {
            // The server has dropped the context, for example because a token was retransmitted.
            Err(error) if !handle.is_empty() && is_unknown(&error) => {
                debug!(%error, "restarting context establishment");
                exchange_tokens(transport, mechanism, service, &mut Bytes::new()).await?
            }
            other => other?,
        };
        debug!(?session, "context established");
        let numbers = Numbers::new(session.window());
        Ok(Context { session, numbers })
    }

    async fn transact<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let first = self.context().await?;
        match self.once::<Q>(&first, args).await {
            Err(error) if needs_new_context(&error) => {
                debug!(%error, "replacing the context");
                self.drop_context(&first).await;
                let second = self.context().await?;
                self.once::<Q>(&second, args).await
            }
            other => other,
        }
    }

    async fn once<Q: Procedure<Program = P>>(
        &self,
        context: &Context,
        args: &Q::Args,
    ) -> Result<Q::Res, CallError> {
        const { checks::procedure::<Q>() };
        let transport = &self.0.transport;
        let xid = transport.next_xid();
        let exchange = async {
            let Context { session, numbers } = context;
            let number = numbers.take().await?;
            let message = session.call::<Q>(xid, number.0, args, transport.min_item()).map_err(unsent)?;
            let bounds = session.reply_bounds(Q::reply_bounds(args));
            let (reply, traffic): (_, Traffic) =
                transport.exchange(Q::NAME, message, bounds, Sends::Once).await?;
            Ok((session.result(xid, number.0, &reply)?, traffic))
        };
        transport.observe::<Q>(xid, exchange).await
    }
}

/// Runs a step of a mechanism on the blocking pool, because the step may contact a key server.
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

/// Exchanges tokens with the server until the context is established. Sets `handle` to the context handle if
/// the server asks for another token.
async fn exchange_tokens<P: Program>(
    transport: &impl MessageTransport<P>,
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
    for _ in 0..MAX_STEPS {
        let (token, context) = match next {
            GssStep::Continue(token) => (token, None),
            GssStep::Done(token, context) => (token, Some(context)),
        };
        let xid = transport.next_xid();
        let message = GssSession::init_call::<P>(xid, handle, token.into())?;
        let bounds = GssSession::init_bounds(mechanism.longest_token());
        let (reply, _) = transport.exchange("RPCSEC_GSS_INIT", message, bounds, Sends::Repeated).await?;
        let answer = GssSession::init_answer(xid, &reply).map_err(|failure| match failure {
            GssFailure::Refused(error) => GssFailure::Refused(mechanism.explain(error)),
            other => other,
        })?;
        match (context, answer.complete) {
            (Some(context), true) => return Ok(GssSession::new(context, service, answer)?),
            (Some(_), false) => {
                return Err(GssFailure::Protocol("another token requested after the last token").into());
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
                        _ => Err(GssFailure::Protocol("context complete before the last token").into()),
                    };
                }
                *handle = answer.handle;
            }
        }
    }
    Err(GssFailure::Protocol("too many tokens").into())
}

async fn destroy<C: MessageTransport<P>, P: Program>(
    transport: &C,
    context: &Context,
) -> Result<(), CallError> {
    let number = context.numbers.take().await?;
    let xid = transport.next_xid();
    let message = context.session.destroy::<P>(xid, number.0)?;
    let bounds = context.session.reply_bounds(ReplyBounds::of::<()>());
    let (reply, _) = transport.exchange("RPCSEC_GSS_DESTROY", message, bounds, Sends::Once).await?;
    Ok(context.session.ended(xid, number.0, &reply)?)
}

fn unsent(failure: GssFailure) -> GssFailure {
    match failure {
        GssFailure::Mechanism(error) if error.is_expired() => GssFailure::Expired,
        other => other,
    }
}

/// Returns true if the server does not recognize the context that is being established.
fn is_unknown(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Gss(GssFailure::Rejected(ReplyError::Auth(
            AuthStat::RejectedCredential | AuthStat::GssCredentialProblem | AuthStat::GssContextProblem
        )))
    )
}

/// Returns true if the call was not executed and a new context may make it succeed.
fn needs_new_context(error: &CallError) -> bool {
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

impl<C: MessageTransport<P>, P: Program> CallTransport for GssClient<C, P> {
    type Error = CallError;
}

impl<C: MessageTransport<P>, P: Program> Caller<P> for GssClient<C, P> {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        Box::pin(self.transact::<Q>(args))
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
        if let (Some(context), Ok(runtime)) = (self.context.get_mut().take(), Handle::try_current()) {
            let transport = self.transport.clone();
            runtime.spawn(async move {
                if let Err(error) = destroy::<C, P>(&transport, &context).await {
                    debug!(%error, "cannot destroy the RPCSEC_GSS context");
                }
            });
        }
    }
}

/// Allocates sequence numbers. A call waits if its number would push the oldest number in use out of the
/// server's window.
struct Numbers {
    window: u32,
    state: Mutex<State>,
    released: Notify,
}

struct State {
    next: u32,
    in_use: BTreeSet<u32>,
}

impl Numbers {
    fn new(window: u32) -> Self {
        let state = Mutex::new(State { next: 1, in_use: BTreeSet::new() });
        Numbers { window, state, released: Notify::new() }
    }

    /// Waits for the next number, which is in use until the returned value is dropped.
    async fn take(&self) -> Result<Number<'_>, GssFailure> {
        loop {
            let mut changed = std::pin::pin!(self.released.notified());
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

struct Number<'a>(u32, &'a Numbers);

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.1.state().in_use.remove(&self.0);
        self.1.released.notify_waiters();
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
        assert!(waits.is_err(), "the first number is still in use");
        drop(first);
        assert_eq!(fourth.await.unwrap().0, 4);
    }

    #[tokio::test]
    async fn sequence_numbers_are_exhausted() {
        let numbers = Numbers::new(3);
        numbers.state().next = MAX_SEQUENCE - 1;
        assert_eq!(numbers.take().await.unwrap().0, MAX_SEQUENCE - 1);
        assert!(matches!(numbers.take().await, Err(GssFailure::Exhausted)));
    }
}
