use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::proto::program::{AuthStat, CallContext, Credential, Origin, Reject, Service};
use crate::wire::rpc::{CallHeader, CallRefusal, ReplyHeader};
use crate::xdr::{Message, Reader, Received, Reducer};

/// The services of a server, found by program and version.
#[derive(Clone, Default)]
pub struct Services(Vec<Arc<dyn Service>>);

impl Services {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Services::default()
    }

    /// Adds one. Of two with the same program and version the first is asked.
    pub fn add(&mut self, service: impl Service) {
        self.0.push(Arc::new(service));
    }

    /// Which programs and versions there are.
    pub fn programs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|service| (service.program(), service.version()))
    }

    /// Runs a call and gives its reply, every item of it out of the stream, unless the call's credential says that it
    /// must stay whole; or nothing, if the message is no call.
    pub async fn answer(&self, message: &Received, origin: impl Into<Origin>) -> Option<Message> {
        let Origin { peer, extensions } = origin.into();
        let mut args = Reader::new(message);
        let header = match CallHeader::decode(&mut args) {
            Ok(header) => header,
            Err(CallRefusal::NotACall) => return None,
            Err(CallRefusal::RpcMismatch { xid }) => return error(xid, ReplyHeader::RpcMismatch),
            Err(CallRefusal::Truncated { xid }) => {
                return error(xid, ReplyHeader::Rejected(Reject::GarbageArguments));
            }
            Err(CallRefusal::Auth { xid, stat }) => {
                return error(xid, ReplyHeader::Rejected(Reject::AuthError(stat)));
            }
        };
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
            peer,
            extensions,
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

    fn find(&self, header: &CallHeader) -> Result<&Arc<dyn Service>, ReplyHeader> {
        let of_program = || self.0.iter().filter(|service| service.program() == header.program);
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
