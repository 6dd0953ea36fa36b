use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;

use bytes::Bytes;
use tracing::warn;

use crate::proto::program::{AuthStat, CallContext, Credential, Origin, Reject, Service};
use crate::wire::rpc::{CallHeader, RPCSEC_GSS, ReplyHeader, RpcCall, RpcReply, Verifier};
use crate::xdr::{Message, Received, Reducer};

/// The services of a server, by program and version.
///
/// ```
/// use rpcrdma_conf::vers1;
/// use rpcrdma_runtime::Services;
/// # use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq};
/// # use rpcrdma_runtime::program::{CallContext, Reject};
/// # struct Sizes;
/// # impl vers1::Handler for Sizes {
/// #     async fn conf_rdma(&self, _: &CallContext, _: ConfigRdmaReq) -> Result<ConfigRdmaReply, Reject> {
/// #         Err(Reject::SystemError)
/// #     }
/// # }
///
/// let mut services = Services::new();
/// services.add(vers1::Server(Sizes)); // `Sizes` implements `vers1::Handler`
/// assert_eq!(services.programs().count(), 1);
/// ```
#[derive(Clone, Default)]
pub struct Services {
    services: Vec<Arc<dyn Service>>,
    pub(super) gss: Option<Arc<dyn AnswersGss>>,
}

/// The interface of the RPCSEC_GSS server. The server itself requires the standard library.
pub(super) trait AnswersGss: Send + Sync {
    /// Returns the name of a call's authenticated caller, or `None` if the call creates a context.
    /// `credential` is the credential's body.
    fn authenticate(&self, credential: &Bytes, call: &RpcCall) -> Result<Option<Bytes>, AuthStat>;

    /// Returns the reply to a call, if any. `credential` is the credential's body.
    fn answer<'a>(
        &'a self,
        services: &'a Services,
        credential: Bytes,
        call: RpcCall,
        origin: Origin,
    ) -> Pin<Box<dyn Future<Output = Option<RpcReply>> + Send + 'a>>;
}

impl Services {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Services::default()
    }

    /// Adds a service. If two services share a program and version, the first one wins, and a warning is
    /// logged.
    pub fn add(&mut self, service: impl Service) {
        let (program, version) = (service.program(), service.version());
        if self.programs().any(|known| known == (program, version)) {
            warn!(program, version, "unused service: an earlier service has the same program and version");
        }
        self.services.push(Arc::new(service));
    }

    /// Returns the programs and versions of the services.
    pub fn programs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.services.iter().map(|service| (service.program(), service.version()))
    }

    /// Returns the largest [`Service::max_args`] of all services.
    #[must_use]
    pub fn max_args(&self) -> u64 {
        self.services.iter().map(|service| service.max_args()).max().unwrap_or(0)
    }

    /// Returns true if a call may use the duplicate-request cache ([`Service::is_cached`]). Calls to
    /// unknown programs or versions have no effect and bypass the cache, and so do NULL calls without
    /// RPCSEC_GSS. With RPCSEC_GSS, NULL calls create contexts or use up sequence numbers, so they may use
    /// the cache.
    #[must_use]
    pub fn is_cached(&self, call: &CallHeader) -> bool {
        let has_effect =
            call.procedure != 0 || matches!(call.credential, Credential::Other { flavor: RPCSEC_GSS, .. });
        has_effect && self.find(call).is_ok_and(|service| service.is_cached(call.procedure))
    }

    /// Returns the name of the authenticated caller of an RPCSEC_GSS call, in the mechanism's format. Returns
    /// `None` for other calls, for calls that create a context, and if no RPCSEC_GSS server is set.
    ///
    /// # Errors
    /// If authentication fails, returns the reason. [`Services::run`] rejects such a call.
    pub fn authenticate(&self, call: &RpcCall) -> Result<Option<Bytes>, AuthStat> {
        match (&self.gss, &call.header.credential) {
            (Some(gss), Credential::Other { flavor: RPCSEC_GSS, body }) => gss.authenticate(body, call),
            _ => Ok(None),
        }
    }

    /// Parses a message, runs its call ([`Services::run`]) and returns the reply, if any.
    pub async fn answer(&self, message: &Received, origin: impl Into<Origin>) -> Option<Message> {
        let reply = match RpcCall::parse(message.clone()) {
            Ok(call) => self.run(call, origin.into()).await,
            Err(refusal) => RpcReply::refuse(refusal),
        };
        reply.map(|reply| reply.message)
    }

    /// Runs a call and returns its reply, if any. Moves all eligible items out of the reply's stream unless
    /// the call's credential forbids reduction.
    pub async fn run(&self, mut call: RpcCall, origin: Origin) -> Option<RpcReply> {
        if let (Some(gss), Credential::Other { flavor: RPCSEC_GSS, body }) =
            (&self.gss, &call.header.credential)
        {
            let credential = body.clone();
            return gss.answer(self, credential, call, origin).await;
        }
        let service = match self.find(&call.header) {
            Ok(service) => service,
            Err(status) => {
                return RpcReply::without_results(call.header.xid, status, &Verifier::default());
            }
        };
        let xid = call.header.xid;
        if let Credential::Other { flavor, .. } = &call.header.credential
            && !service.accepts_flavor(*flavor)
        {
            return RpcReply::reject(xid, Reject::AuthError(AuthStat::RejectedCredential));
        }
        let mut reply =
            if call.header.credential.allows_reduction() { Reducer::new(1) } else { Reducer::disabled() };
        ReplyHeader::Success.encode(xid, &mut reply).ok()?;
        let context = CallContext::new(&mut call, origin);
        match service.dispatch(&context, call.args(), &mut reply).await {
            Ok(()) => Some(RpcReply::success(reply)),
            Err(reject) => RpcReply::rejected(xid, reject, &Verifier::default(), reply),
        }
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

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.programs()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Mutex;

    use super::*;
    use crate::xdr::Reader;

    struct OfVersion {
        version: u32,
        max_args: u64,
    }

    impl Service for OfVersion {
        fn program(&self) -> u32 {
            7
        }

        fn version(&self) -> u32 {
            self.version
        }

        fn max_args(&self) -> u64 {
            self.max_args
        }

        fn dispatch<'a>(
            &'a self,
            _: &'a CallContext,
            _: Reader<'a>,
            _: &'a mut Reducer,
        ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
            Box::pin(async { Ok(()) })
        }
    }

    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").write(octets)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_second_service_for_a_program_and_version_is_logged_and_not_called() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let written = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || Log(written.clone())).finish();
        tracing::subscriber::with_default(subscriber, || {
            let mut services = Services::new();
            for (version, max_args, logged) in [(1, 10, false), (2, 20, false), (1, 30, true)] {
                services.add(OfVersion { version, max_args });
                assert_eq!(!log.lock().unwrap().is_empty(), logged, "version {version}");
            }
            assert_eq!(services.max_args(), 30, "the largest max_args of all services");
            for (version, max_args) in [(1, 10), (2, 20)] {
                let credential = Credential::None;
                let call = CallHeader { xid: 1, program: 7, version, procedure: 0, credential };
                assert_eq!(services.find(&call).unwrap().max_args(), max_args, "the first service wins");
            }
        });
        let text = String::from_utf8(log.lock().unwrap().clone()).unwrap();
        assert!(text.contains("WARN") && text.contains("version=1"), "{text}");
    }
}
