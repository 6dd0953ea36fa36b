//! A server's replies to RPCSEC_GSS calls (RFC 2203 section 5.3.3).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::pin::Pin;

use bytes::Bytes;
use tracing::debug;

use super::super::{GssCaller, GssControl, GssCredential, GssService, body};
use super::{AuthenticatedCall, GssServer, Refused};
use crate::proto::program::{AuthStat, CallContext, Origin, Reject, Service};
use crate::proto::rpc::Services;
use crate::proto::rpc::services::AnswersGss;
use crate::wire::generated::rpcsec_gss as xdr;
use crate::wire::rpc::{ReplyHeader, RpcCall, RpcReply};
use crate::xdr::{Encode, Reader, Reducer};

impl Services {
    /// Also accepts RPCSEC_GSS calls. Services find the authenticated caller as [`GssCaller`] in the call's
    /// extensions. [`Service::accepts_flavor`] is not called for this flavor. AUTH_NONE and AUTH_SYS
    /// calls are still accepted, without a [`GssCaller`].
    pub fn with_gss(&mut self, gss: impl Into<Arc<GssServer>>) {
        self.gss = Some(gss.into());
    }
}

impl AnswersGss for GssServer {
    fn authenticate(&self, credential: &Bytes, call: &RpcCall) -> Result<Option<Bytes>, AuthStat> {
        let credential = GssCredential::decode(credential)?;
        if matches!(credential.control, GssControl::Init | GssControl::ContinueInit) {
            return Ok(None);
        }
        let context = self.verify(&credential, &call.verifier, call.unverified())?;
        Ok(Some(context.peer().to_vec().into()))
    }

    fn answer<'a>(
        &'a self,
        services: &'a Services,
        credential: Bytes,
        call: RpcCall,
        origin: Origin,
    ) -> Pin<Box<dyn Future<Output = Option<RpcReply>> + Send + 'a>> {
        Box::pin(self.run_or_step(services, credential, call, origin))
    }
}

impl GssServer {
    /// Runs an RPCSEC_GSS call, or creates or destroys a context. `credential` is the credential's body.
    async fn run_or_step(
        &self,
        services: &Services,
        credential: Bytes,
        call: RpcCall,
        origin: Origin,
    ) -> Option<RpcReply> {
        let xid = call.header.xid;
        let credential = match GssCredential::decode(&credential) {
            Ok(credential) => credential,
            Err(stat) => return RpcReply::reject(xid, Reject::AuthError(stat)),
        };
        if credential.control != GssControl::Data && call.header.procedure != 0 {
            return RpcReply::reject(xid, Reject::AuthError(AuthStat::BadCredential));
        }
        if matches!(credential.control, GssControl::Init | GssControl::ContinueInit) {
            return process_token(self, &credential, &call);
        }
        let authenticated = match self.authenticate_call(&credential, &call.verifier, call.unverified()) {
            Ok(authenticated) => authenticated,
            Err(Refused::Denied(stat)) => return RpcReply::reject(xid, Reject::AuthError(stat)),
            Err(Refused::NoReply) => {
                debug!(xid, sequence = credential.sequence, "repeated or old sequence number: call dropped");
                return None;
            }
        };
        if credential.control == GssControl::Destroy {
            self.remove(&credential.handle);
            return RpcReply::without_results(xid, ReplyHeader::Success, &authenticated.verifier);
        }
        match services.find(&call.header) {
            Ok(service) => run(service, &authenticated, call, origin).await,
            Err(refused) => RpcReply::without_results(xid, refused, &authenticated.verifier),
        }
    }
}

fn process_token(gss: &GssServer, credential: &GssCredential, call: &RpcCall) -> Option<RpcReply> {
    let xid = call.header.xid;
    let Ok(token) = call.args().decode_all::<xdr::RpcGssInitArg>() else {
        return RpcReply::reject(xid, Reject::GarbageArguments);
    };
    match gss.process_token(credential, &call.verifier, &token.gss_token) {
        Ok(answer) => {
            let mut reply = Reducer::disabled();
            ReplyHeader::Success.encode_verified(xid, &answer.verifier, &mut reply).ok()?;
            answer.result.encode(&mut reply).ok()?;
            Some(RpcReply::success(reply))
        }
        Err(stat) => RpcReply::reject(xid, Reject::AuthError(stat)),
    }
}

async fn run(
    service: &Arc<dyn Service>,
    authenticated: &AuthenticatedCall,
    mut call: RpcCall,
    origin: Origin,
) -> Option<RpcReply> {
    let AuthenticatedCall { context, service: protection, sequence, verifier } = authenticated;
    let xid = call.header.xid;
    let caller = GssCaller { name: context.peer().to_vec().into(), service: *protection };
    let origin = Origin { extensions: origin.extensions.with(caller), ..origin };
    let call_context = CallContext::new(&mut call, origin);
    let rejected = |reject| RpcReply::without_results(xid, ReplyHeader::Rejected(reject), verifier);
    let failed = |reject, results| RpcReply::rejected(xid, reject, verifier, results);
    if *protection == GssService::None {
        let mut reply = Reducer::new(1);
        ReplyHeader::Success.encode_verified(xid, verifier, &mut reply).ok()?;
        return match service.dispatch(&call_context, call.args(), &mut reply).await {
            Ok(()) => Some(RpcReply::success(reply)),
            Err(reject) => failed(reject, reply),
        };
    }
    let Ok(args) = body::unprotect(&**context, *protection, *sequence, call.args()) else {
        return rejected(Reject::GarbageArguments);
    };
    let mut results = body::new(*sequence).ok()?;
    if let Err(reject) = service.dispatch(&call_context, Reader::from_bytes(&args), &mut results).await {
        return failed(reject, results);
    }
    let mut reply = Reducer::disabled();
    ReplyHeader::Success.encode_verified(xid, verifier, &mut reply).ok()?;
    // Results that cannot be protected are not sent (RFC 2203 section 5.3.3.4).
    if let Err(error) = body::protect(&**context, *protection, results, &mut reply) {
        debug!(xid, %error, "the results cannot be protected");
        return None;
    }
    Some(RpcReply::success(reply))
}
