//! What a server answers to calls over RPCSEC_GSS (RFC 2203 section 5.3.3).

use alloc::sync::Arc;

use tracing::debug;

use super::server::{Admitted, Refused};
use super::{GssCaller, GssControl, GssCredential, GssServer, GssService, body};
use crate::proto::program::{AuthStat, CallContext, Origin, Reject, Service};
use crate::proto::rpc::Services;
use crate::wire::generated::rpcsec_gss as xdr;
use crate::wire::rpc::{CallHeader, ReplyHeader, Verifier};
use crate::xdr::{Decode, Encode, Message, Reader, Reducer};

/// A call as it came: its header, what was in front of the verifier, the verifier, and what is behind it.
pub(in crate::proto::rpc) struct GssCall<'a> {
    pub(in crate::proto::rpc) header: CallHeader,
    /// The credential's body.
    pub(in crate::proto::rpc) credential: bytes::Bytes,
    pub(in crate::proto::rpc) unverified: &'a [u8],
    pub(in crate::proto::rpc) verifier: Verifier,
    pub(in crate::proto::rpc) args: Reader<'a>,
}

impl Services {
    /// Runs a call over RPCSEC_GSS, or takes a step in the life of a context.
    pub(in crate::proto::rpc) async fn answer_gss(
        &self,
        gss: &GssServer,
        call: GssCall<'_>,
        origin: Origin,
    ) -> Option<Message> {
        let xid = call.header.xid;
        let credential = match GssCredential::decode(&call.credential) {
            Ok(credential) => credential,
            Err(stat) => return denied(xid, stat),
        };
        if credential.control != GssControl::Data && call.header.procedure != 0 {
            return denied(xid, AuthStat::BadCredential);
        }
        if matches!(credential.control, GssControl::Init | GssControl::ContinueInit) {
            return make(gss, xid, &credential, &call.verifier, call.args);
        }
        let admitted = match gss.admit(&credential, &call.verifier, call.unverified) {
            Ok(admitted) => admitted,
            Err(Refused::Denied(stat)) => return denied(xid, stat),
            Err(Refused::Silently) => {
                debug!(
                    xid,
                    sequence = credential.sequence,
                    "a sequence number that came before, or is too old"
                );
                return None;
            }
        };
        if credential.control == GssControl::Destroy {
            gss.forget(&credential.handle);
            return verified(xid, &ReplyHeader::Success, &admitted.verifier);
        }
        match self.find(&call.header) {
            Ok(service) => run(service, &admitted, call, origin).await,
            Err(refused) => verified(xid, &refused, &admitted.verifier),
        }
    }
}

/// Takes a token.
fn make(
    gss: &GssServer,
    xid: u32,
    credential: &GssCredential,
    verifier: &Verifier,
    mut args: Reader<'_>,
) -> Option<Message> {
    let token = xdr::RpcGssInitArg::decode(&mut args).and_then(|token| args.finish().map(|()| token));
    let Ok(token) = token else {
        let refused = ReplyHeader::Rejected(Reject::GarbageArguments);
        return verified(xid, &refused, &Verifier::default());
    };
    match gss.make(credential, verifier, &token.gss_token) {
        Ok(made) => {
            let mut reply = Reducer::disabled();
            ReplyHeader::Success.encode_verified(xid, &made.verifier, &mut reply).ok()?;
            made.result.encode(&mut reply).ok()?;
            Some(reply.into_message())
        }
        Err(stat) => denied(xid, stat),
    }
}

/// Runs a call whose caller is known.
async fn run(
    service: &Arc<dyn Service>,
    admitted: &Admitted,
    call: GssCall<'_>,
    origin: Origin,
) -> Option<Message> {
    let Admitted { context, service: protection, sequence, verifier } = admitted;
    let (xid, header) = (call.header.xid, call.header);
    let caller = GssCaller { name: context.peer().to_vec().into(), service: *protection };
    let about = CallContext {
        xid,
        program: header.program,
        version: header.version,
        procedure: header.procedure,
        credential: header.credential,
        peer: origin.peer,
        extensions: origin.extensions.with(caller),
    };
    if *protection == GssService::None {
        let mut reply = Reducer::new(1);
        ReplyHeader::Success.encode_verified(xid, verifier, &mut reply).ok()?;
        return match service.dispatch(&about, call.args, &mut reply).await {
            Ok(()) => Some(reply.into_message()),
            Err(reject) => verified(xid, &ReplyHeader::Rejected(reject), verifier),
        };
    }
    let Ok(args) = body::open(&**context, *protection, *sequence, call.args) else {
        return verified(xid, &ReplyHeader::Rejected(Reject::GarbageArguments), verifier);
    };
    let mut results = body::begin(*sequence).ok()?;
    if let Err(reject) = service.dispatch(&about, Reader::from_bytes(&args), &mut results).await {
        return verified(xid, &ReplyHeader::Rejected(reject), verifier);
    }
    let mut reply = Reducer::disabled();
    ReplyHeader::Success.encode_verified(xid, verifier, &mut reply).ok()?;
    // Results that cannot be protected are not sent (RFC 2203 section 5.3.3.4).
    if let Err(error) = body::seal(&**context, *protection, results, &mut reply) {
        debug!(xid, %error, "results cannot be protected");
        return None;
    }
    Some(reply.into_message())
}

fn denied(xid: u32, stat: AuthStat) -> Option<Message> {
    verified(xid, &ReplyHeader::Rejected(Reject::AuthError(stat)), &Verifier::default())
}

/// A reply without results.
fn verified(xid: u32, header: &ReplyHeader, verifier: &Verifier) -> Option<Message> {
    let mut reply = Reducer::disabled();
    header.encode_verified(xid, verifier, &mut reply).ok()?;
    Some(reply.into_message())
}
