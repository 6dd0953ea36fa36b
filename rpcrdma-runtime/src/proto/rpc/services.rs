use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::duplicates::ProcedureId;
#[cfg(feature = "std")]
use super::gss::answer::GssCall;
use crate::proto::program::{AuthStat, CallContext, Credential, Origin, Reject, Service};
#[cfg(feature = "std")]
use crate::wire::rpc::RPCSEC_GSS;
use crate::wire::rpc::{CallHeader, CallRefusal, ReplyHeader};
use crate::xdr::{Message, Reader, Received, Reducer};

/// The services of a server, found by program and version.
#[derive(Clone, Default)]
pub struct Services {
    services: Vec<Arc<dyn Service>>,
    #[cfg(feature = "std")]
    gss: Option<Arc<super::gss::GssServer>>,
}

impl Services {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Services::default()
    }

    /// Adds one. Of two with the same program and version the first is asked.
    pub fn add(&mut self, service: impl Service) {
        self.services.push(Arc::new(service));
    }

    /// Takes calls over RPCSEC_GSS as well. Services are called by those who have shown who they are as well, and find them as
    /// [`GssCaller`](super::gss::GssCaller) in the call's extensions; [`Service::accepts_flavor`] is not asked.
    /// Calls with AUTH_NONE and AUTH_SYS are taken as before, and have no such caller.
    #[cfg(feature = "std")]
    pub fn secured(&mut self, gss: impl Into<Arc<super::gss::GssServer>>) {
        self.gss = Some(gss.into());
    }

    /// Which programs and versions there are.
    pub fn programs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.services.iter().map(|service| (service.program(), service.version()))
    }

    /// Whether calls of this procedure are for a duplicate-request cache ([`Service::remembers`]). Calls of programs that are
    /// not there are not: they have no result.
    #[must_use]
    pub fn remembers(&self, called: ProcedureId) -> bool {
        let ProcedureId { program, version, procedure } = called;
        let is_called =
            |service: &&Arc<dyn Service>| (service.program(), service.version()) == (program, version);
        self.services.iter().find(is_called).is_some_and(|service| service.remembers(procedure))
    }

    /// Runs a call and gives its reply, every item of it out of the stream, unless the call's credential says that it
    /// must stay whole; or nothing, if the message is no call.
    pub async fn answer(&self, message: &Received, origin: impl Into<Origin>) -> Option<Message> {
        let mut args = Reader::new(message);
        let (header, verifier, unverified) = match CallHeader::decode_verified(&mut args) {
            Ok(decoded) => decoded,
            Err(refusal) => return refused(refusal),
        };
        #[cfg(feature = "std")]
        if let (Some(gss), Credential::Other { flavor: RPCSEC_GSS, body }) = (&self.gss, &header.credential) {
            let credential = body.clone();
            let unverified = usize::try_from(unverified).ok().and_then(|len| message.stream.get(..len))?;
            let call = GssCall { header, credential, unverified, verifier, args };
            return self.answer_gss(gss, call, origin.into()).await;
        }
        let _ = (verifier, unverified); // of the other flavors none has one that says anything
        self.run(header, args, origin.into()).await
    }

    /// Runs a call of a caller who says who it is, or not even that.
    async fn run(&self, header: CallHeader, args: Reader<'_>, origin: Origin) -> Option<Message> {
        let service = match self.find(&header) {
            Ok(service) => service,
            Err(refused) => return error(header.xid, refused),
        };
        let xid = header.xid;
        if let Credential::Other { flavor, .. } = &header.credential
            && !service.accepts_flavor(*flavor)
        {
            let refused = Reject::AuthError(AuthStat::RejectedCredential);
            return error(xid, ReplyHeader::Rejected(refused));
        }
        let mut reply =
            if header.credential.allows_reduction() { Reducer::new(1) } else { Reducer::disabled() };
        let context = CallContext {
            xid,
            program: header.program,
            version: header.version,
            procedure: header.procedure,
            credential: header.credential,
            peer: origin.peer,
            extensions: origin.extensions,
        };
        ReplyHeader::Success.encode(xid, &mut reply).ok()?;
        match service.dispatch(&context, args, &mut reply).await {
            Ok(()) => Some(reply.into_message()),
            Err(reject) => error(xid, ReplyHeader::Rejected(reject)),
        }
    }

    /// The reply SYSTEM_ERR to call `xid`.
    #[must_use]
    pub fn system_error(xid: u32) -> Option<Message> {
        error(xid, ReplyHeader::Rejected(Reject::SystemError))
    }

    pub(super) fn find(&self, header: &CallHeader) -> Result<&Arc<dyn Service>, ReplyHeader> {
        let of_program = || self.services.iter().filter(|service| service.program() == header.program);
        if let Some(service) = of_program().find(|service| service.version() == header.version) {
            return Ok(service);
        }
        let versions = || of_program().map(|service| service.version());
        match (versions().min(), versions().max()) {
            (Some(low), Some(high)) => Err(ReplyHeader::ProgramMismatch { low, high }),
            _ => Err(ReplyHeader::ProgramUnavailable),
        }
    }
}

/// The answer to what is no call that can be run.
fn refused(refusal: CallRefusal) -> Option<Message> {
    match refusal {
        CallRefusal::NotACall => None,
        CallRefusal::RpcMismatch { xid } => error(xid, ReplyHeader::RpcMismatch),
        CallRefusal::Truncated { xid } => error(xid, ReplyHeader::Rejected(Reject::GarbageArguments)),
        CallRefusal::Auth { xid, stat } => error(xid, ReplyHeader::Rejected(Reject::AuthError(stat))),
    }
}

/// A reply without results.
fn error(xid: u32, header: ReplyHeader) -> Option<Message> {
    let mut reply = Reducer::disabled();
    header.encode(xid, &mut reply).ok()?;
    Some(reply.into_message())
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.programs()).finish()
    }
}
