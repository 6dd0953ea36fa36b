//! The Kerberos contexts of clients and servers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext, ServerCtx};
use libgssapi::error::Error;
use libgssapi::util::Buf;
use rpcrdma_runtime::{GssContext, GssError, GssExchange, GssOverhead, GssStep};

use crate::causes;

/// The first bytes of a wrapped message (RFC 4121 section 4.2.6.2).
const WRAP_TOKEN: [u8; 2] = [5, 4];
/// The flag of an encrypted wrapped message (RFC 4121 section 4.2.2).
const SEALED: u8 = 2;

#[derive(Clone, Debug)]
pub(crate) enum Role {
    Client {
        /// `SERVICE@HOST`.
        service: String,
    },
    Server,
}

pub(crate) trait Steps: SecurityContext + Send + 'static {
    fn accept(&mut self, token: &[u8]) -> Result<Option<Buf>, Error>;
}

impl Steps for ClientCtx {
    fn accept(&mut self, token: &[u8]) -> Result<Option<Buf>, Error> {
        self.step(Some(token).filter(|token| !token.is_empty()), None)
    }
}

impl Steps for ServerCtx {
    fn accept(&mut self, token: &[u8]) -> Result<Option<Buf>, Error> {
        self.step(token, None)
    }
}

pub(crate) struct Exchange<C> {
    /// `None` after the context is complete or a step has failed.
    context: Option<C>,
    role: Role,
}

impl<C: Steps> Exchange<C> {
    pub(crate) fn new(context: C, role: Role) -> Self {
        Exchange { context: Some(context), role }
    }

    fn explained(&self, error: Error) -> GssError {
        match &self.role {
            Role::Client { service } => causes::of_client(error, service),
            Role::Server => causes::plain(error),
        }
    }
}

impl<C: Steps> GssExchange for Exchange<C> {
    fn step(&mut self, token: &[u8]) -> Result<GssStep, GssError> {
        let mut context = self.context.take().ok_or(GssError::DEFECTIVE_TOKEN)?;
        let token = context.accept(token).map_err(|error| self.explained(error))?;
        let token = token.map(|token| token.to_vec()).unwrap_or_default();
        if !context.is_complete() {
            self.context = Some(context);
            return Ok(GssStep::Continue(token));
        }
        let is_client = matches!(self.role, Role::Client { .. });
        let context = Context::new(context, is_client).map_err(causes::plain)?;
        if context.detects_replays {
            let why = "the client requests replay detection from Kerberos, but RPCSEC_GSS has its own \
                       (RFC 2203 section 5.2.2)";
            return Err(GssError { text: Some(why.into()), ..GssError::FAILURE });
        }
        Ok(GssStep::Done(token, Arc::new(context)))
    }
}

/// An established context. The library allows one call at a time on a context.
struct Context<C> {
    inner: Mutex<C>,
    peer: Vec<u8>,
    /// The time at which the context expires, or `None` if this time exceeds the maximum `SystemTime`.
    expires: Option<SystemTime>,
    is_client: bool,
    detects_replays: bool,
}

impl<C: Steps> Context<C> {
    fn new(context: C, is_client: bool) -> Result<Self, Error> {
        let name = if is_client { context.target_name()? } else { context.source_name()? };
        let peer = name.display_name()?.to_vec();
        let expires = SystemTime::now().checked_add(context.lifetime()?);
        let replays = CtxFlags::GSS_C_REPLAY_FLAG | CtxFlags::GSS_C_SEQUENCE_FLAG;
        let detects_replays = context.flags()?.intersects(replays);
        Ok(Context { inner: Mutex::new(context), peer, expires, is_client, detects_replays })
    }

    fn inner(&self) -> MutexGuard<'_, C> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the context has expired, since the library does not check the expiry. This check does not
    /// apply to replies, so a call that starts in time gets its reply.
    fn check_age(&self) -> Result<(), GssError> {
        match self.expires {
            Some(expires) if SystemTime::now() >= expires => Err(GssError::CONTEXT_EXPIRED),
            _ => Ok(()),
        }
    }
}

impl<C: Steps> GssContext for Context<C> {
    fn get_mic(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        if self.is_client {
            self.check_age()?;
        }
        let mic = self.inner().get_mic(message).map_err(causes::plain)?;
        Ok(mic.to_vec())
    }

    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssError> {
        if !self.is_client {
            self.check_age()?;
        }
        self.inner().verify_mic(message, mic).map_err(causes::plain)
    }

    fn wrap(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        let wrapped = self.inner().wrap(true, message).map_err(causes::plain)?;
        Ok(wrapped.to_vec())
    }

    /// The library also accepts messages that are only signed, so the encryption flag is checked first. The
    /// library then verifies the flag together with the message.
    fn unwrap(&self, wrapped: &[u8]) -> Result<Vec<u8>, GssError> {
        if !is_sealed(wrapped) {
            return Err(GssError::DEFECTIVE_TOKEN);
        }
        let message = self.inner().unwrap(wrapped).map_err(causes::plain)?;
        Ok(message.to_vec())
    }

    /// A MIC has a header of 16 bytes and a checksum of at most 24 bytes (RFC 4121 section 4.2.6.1, RFC 8009
    /// section 5). A wrapped message additionally has a confounder of 16 bytes, filler of less than 16 bytes
    /// and a copy of the header.
    fn overhead(&self) -> GssOverhead {
        GssOverhead { mic: 40, wrap: 88 }
    }

    fn peer(&self) -> &[u8] {
        &self.peer
    }
}

/// Returns true if a wrapped message claims to be encrypted.
fn is_sealed(wrapped: &[u8]) -> bool {
    wrapped.starts_with(&WRAP_TOKEN) && wrapped.get(2).is_some_and(|flags| flags & SEALED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Token headers of RFC 4121 section 4.2.6. Tokens of RFC 1964 start with 0x60.
    #[test]
    fn a_message_that_is_only_signed_is_not_sealed() {
        for sealed in [[5, 4, 2, 0xff], [5, 4, 7, 0xff]] {
            assert!(is_sealed(&sealed), "{sealed:?}");
        }
        for other in [&[5, 4, 0, 0xff][..], &[5, 4, 5, 0xff], &[4, 4, 2, 0xff], &[0x60, 4, 2], &[5, 4], &[]] {
            assert!(!is_sealed(other), "{other:?}");
        }
    }
}
