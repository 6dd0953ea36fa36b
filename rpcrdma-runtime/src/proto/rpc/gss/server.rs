mod answer;
mod table;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::debug;

use self::table::{Handle, Handles, Table};
use super::{
    GssContext, GssControl, GssCredential, GssError, GssExchange, GssMechanism, GssService, GssStep,
    SequenceWindow,
};
use crate::proto::program::AuthStat;
use crate::wire::generated::rpcsec_gss as xdr;
use crate::wire::rpc::{MAX_SEQUENCE, RPCSEC_GSS, Verifier};

/// The options of an RPCSEC_GSS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssServerOptions {
    /// The weakest accepted service of RPCSEC_GSS calls (default [`GssService::None`]). Calls with a weaker
    /// service get AUTH_TOOWEAK. This option does not affect calls with AUTH_NONE or AUTH_SYS. A handler that
    /// requires authentication must reject calls without a [`GssCaller`](super::GssCaller) among their
    /// extensions.
    pub min_service: GssService,
    /// The size of each context's sequence window (default 1,024; at least 1, at most 65,536).
    pub window: u32,
    /// Maximum number of established contexts (default 4,096; at least 1). Beyond this number, the least
    /// recently used context is dropped, and its client must create a new context.
    pub max_contexts: usize,
    /// Maximum number of contexts under construction (default 256; at least 1). Anyone can start a context.
    /// Contexts under construction are counted separately, so unauthenticated clients cannot evict
    /// established contexts.
    pub max_unfinished: usize,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for GssServerOptions {
    fn default() -> Self {
        GssServerOptions {
            min_service: GssService::None,
            window: 1024,
            max_contexts: 4096,
            max_unfinished: 256,
            non_exhaustive: (),
        }
    }
}

/// The RPCSEC_GSS server, for [`Services::with_gss`](crate::proto::rpc::Services::with_gss). It
/// creates contexts, authenticates callers and protects results. RPC servers with the same `GssServer` share
/// its contexts: a context created over TCP is valid over RPC-over-RDMA.
///
/// ```
/// use rpcrdma_runtime::{GssMechanism, GssServer, GssServerOptions, GssService, Services};
///
/// /// Accepts RPCSEC_GSS calls with at least integrity.
/// fn protect(services: &mut Services, keys: impl GssMechanism + 'static) {
///     let options = GssServerOptions { min_service: GssService::Integrity, ..GssServerOptions::default() };
///     services.with_gss(GssServer::with(keys, options));
/// }
/// ```
pub struct GssServer {
    mechanism: Box<dyn GssMechanism>,
    options: GssServerOptions,
    handles: Mutex<Handles>,
    exchanges: Mutex<Table<Box<dyn GssExchange>>>,
    contexts: Mutex<Table<Context>>,
}

struct Context {
    context: Arc<dyn GssContext>,
    window: SequenceWindow,
}

pub(super) struct InitReply {
    pub(super) result: xdr::RpcGssInitRes,
    pub(super) verifier: Verifier,
}

pub(super) struct AuthenticatedCall {
    pub(super) context: Arc<dyn GssContext>,
    pub(super) service: GssService,
    pub(super) sequence: u32,
    /// The verifier of the reply.
    pub(super) verifier: Verifier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Denied(AuthStat),
    /// The sequence number is repeated or below the window: the call gets no reply (RFC 2203 section
    /// 5.3.3.1).
    NoReply,
}

impl GssServer {
    /// Creates a server with default options.
    pub fn new(mechanism: impl GssMechanism + 'static) -> Self {
        GssServer::with(mechanism, GssServerOptions::default())
    }

    /// Creates a server with these options.
    pub fn with(mechanism: impl GssMechanism + 'static, options: GssServerOptions) -> Self {
        let options = GssServerOptions { window: options.window.clamp(1, 1 << 16), ..options };
        GssServer {
            mechanism: Box::new(mechanism),
            options,
            handles: Mutex::default(),
            exchanges: Mutex::new(Table::new(options.max_unfinished)),
            contexts: Mutex::new(Table::new(options.max_contexts)),
        }
    }

    /// Returns the number of established contexts.
    #[must_use]
    pub fn contexts(&self) -> usize {
        lock(&self.contexts).len()
    }

    /// Returns the number of contexts under construction.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        lock(&self.exchanges).len()
    }

    pub(super) fn process_token(
        &self,
        credential: &GssCredential,
        verifier: &Verifier,
        token: &[u8],
    ) -> Result<InitReply, AuthStat> {
        if *verifier != Verifier::default() {
            return Err(AuthStat::BadVerifier);
        }
        let (handle, exchange) = match credential.control {
            GssControl::Init if credential.handle.is_empty() => {
                let handle = lock(&self.handles).next();
                match self.mechanism.begin() {
                    Ok(exchange) => (handle, exchange),
                    Err(error) => return Ok(failed(error)),
                }
            }
            GssControl::ContinueInit => self.take_exchange(&credential.handle)?,
            _ => return Err(AuthStat::BadCredential),
        };
        Ok(self.step(handle, exchange, token).unwrap_or_else(failed))
    }

    fn take_exchange(&self, handle: &[u8]) -> Result<(Handle, Box<dyn GssExchange>), AuthStat> {
        match (Handle::try_from(handle), lock(&self.exchanges).remove(handle)) {
            (Ok(handle), Some(exchange)) => Ok((handle, exchange)),
            _ => Err(AuthStat::RejectedCredential),
        }
    }

    fn step(
        &self,
        handle: Handle,
        mut exchange: Box<dyn GssExchange>,
        token: &[u8],
    ) -> Result<InitReply, GssError> {
        let window = self.options.window;
        let (major, token, verifier) = match exchange.step(token)? {
            GssStep::Continue(token) => {
                lock(&self.exchanges).insert(handle, exchange);
                (xdr::GSS_S_CONTINUE_NEEDED, token, Verifier::default())
            }
            GssStep::Done(token, context) => {
                let verifier = checksum(&*context, &window.to_be_bytes())?;
                lock(&self.contexts).insert(handle, Context { context, window: SequenceWindow::new(window) });
                (xdr::GSS_S_COMPLETE, token, verifier)
            }
        };
        let result = xdr::RpcGssInitRes {
            handle: Vec::from(handle).into(),
            gss_major: major,
            gss_minor: 0,
            seq_window: window,
            gss_token: token.into(),
        };
        Ok(InitReply { result, verifier })
    }

    /// Returns the context of a call if its verifier is valid. `header` is the part of the message before the
    /// verifier.
    pub(super) fn verify(
        &self,
        credential: &GssCredential,
        verifier: &Verifier,
        header: &[u8],
    ) -> Result<Arc<dyn GssContext>, AuthStat> {
        let context = lock(&self.contexts).get(&credential.handle[..]).map(|entry| entry.context.clone());
        let context = context.ok_or(AuthStat::GssCredentialProblem)?;
        if verifier.flavor != RPCSEC_GSS {
            return Err(AuthStat::BadVerifier);
        }
        context.verify_mic(header, &verifier.body).map_err(|error| {
            if error.is_expired() { AuthStat::GssContextProblem } else { AuthStat::GssCredentialProblem }
        })?;
        Ok(context)
    }

    /// Authenticates a call that is about to run, and uses up its sequence number.
    pub(super) fn authenticate_call(
        &self,
        credential: &GssCredential,
        verifier: &Verifier,
        header: &[u8],
    ) -> Result<AuthenticatedCall, Refused> {
        let (handle, sequence) = (&credential.handle[..], credential.sequence);
        let unknown = Refused::Denied(AuthStat::GssCredentialProblem);
        let context = self.verify(credential, verifier, header).map_err(Refused::Denied)?;
        if sequence >= MAX_SEQUENCE {
            return Err(Refused::Denied(AuthStat::GssContextProblem));
        }
        let service = credential.service.ok_or(Refused::Denied(AuthStat::BadCredential))?;
        if service < self.options.min_service && credential.control == GssControl::Data {
            return Err(Refused::Denied(AuthStat::TooWeak));
        }
        let new = lock(&self.contexts).get(handle).map(|entry| entry.window.take(sequence)).ok_or(unknown)?;
        if !new {
            return Err(Refused::NoReply);
        }
        let verifier = checksum(&*context, &sequence.to_be_bytes())
            .map_err(|_| Refused::Denied(AuthStat::GssContextProblem))?;
        Ok(AuthenticatedCall { context, service, sequence, verifier })
    }

    pub(super) fn remove(&self, handle: &[u8]) {
        lock(&self.contexts).remove(handle);
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn checksum(context: &dyn GssContext, message: &[u8]) -> Result<Verifier, GssError> {
    Ok(Verifier { flavor: RPCSEC_GSS, body: context.get_mic(message)?.into() })
}

fn failed(error: GssError) -> InitReply {
    debug!(%error, "context creation failed");
    let result = xdr::RpcGssInitRes { gss_major: error.major, gss_minor: error.minor, ..Default::default() };
    InitReply { result, verifier: Verifier::default() }
}

impl fmt::Debug for GssServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssServer").field("options", &self.options).finish_non_exhaustive()
    }
}
