//! Serves an [`Export`] with the procedures of NFS version 3 and MOUNT version 3 (RFC 1813).

mod convert;
mod exports;
mod handler;
mod listing;
mod mount;
mod once;
mod permits;
mod policy;
mod principals;

use std::sync::Arc;

use rpcrdma_runtime::Owner;
use rpcrdma_runtime::program::{AuthStat, CallContext, Reject};

use crate::export::{Export, FileHandle, NfsCaller, NfsError, Outcome, Wcc};

pub use exports::Exports;
pub use mount::MountHandler;
pub use once::must_not_run_twice;
pub use policy::{ExportPolicy, Squash};
pub use principals::Principals;

use self::permits::CallPermits;

/// Handles the 22 procedures of NFS version 3.
///
/// By default, a caller with AUTH_SYS has the identity that it claims, and a caller with AUTH_NONE is
/// anonymous. An [`ExportPolicy`] can change these identities and accept RPCSEC_GSS. The export enforces the
/// rights of each identity.
///
/// ```
/// use std::sync::Arc;
///
/// use rpcrdma_nfs::export::memory::MemoryExport;
/// use rpcrdma_nfs::nfs::{ExportPolicy, MountHandler, NfsHandler, Squash};
///
/// let export = Arc::new(MemoryExport::default());
/// let policy = Arc::new(ExportPolicy { squash: Squash::All, ..ExportPolicy::default() });
/// let nfs = NfsHandler::new(export).policy(policy).read_only(true);
/// let mount = MountHandler::of(nfs.clone().into());
/// // `nfs_v3::Server(nfs)` and `mount_v3::Server(mount)` are services.
/// ```
#[derive(Debug)]
pub struct NfsHandler<E> {
    export: Arc<E>,
    read_only: bool,
    policy: Arc<ExportPolicy>,
    permits: Arc<CallPermits>,
}

impl<E> Clone for NfsHandler<E> {
    fn clone(&self) -> Self {
        let (policy, permits) = (self.policy.clone(), self.permits.clone());
        NfsHandler { export: self.export.clone(), read_only: self.read_only, policy, permits }
    }
}

impl<E: Export> NfsHandler<E> {
    /// Serves an export with the default [`ExportPolicy`].
    #[must_use]
    pub fn new(export: Arc<E>) -> Self {
        NfsHandler { export, read_only: false, policy: Arc::default(), permits: Arc::default() }
    }

    /// Sets which callers are allowed, and their identities. Calls of other callers are rejected
    /// with AUTH_TOOWEAK, except calls of the procedure NULL.
    #[must_use]
    pub fn policy(self, policy: Arc<ExportPolicy>) -> Self {
        NfsHandler { policy, ..self }
    }

    /// Sets whether all changes are rejected with NFS3ERR_ROFS.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        NfsHandler { read_only, ..self }
    }

    /// Calls the export, on the blocking pool if the call may block.
    async fn ask<T: Send + 'static>(
        &self,
        context: &CallContext,
        call: impl FnOnce(&E, &NfsCaller) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        self.try_or_block(context, 0, None, |_, _| None, call).await
    }

    /// Rejects calls that the policy does not allow. Reserves `reply` bytes of memory for the reply. Then
    /// calls the export: inline if the call does not block, else on the blocking pool with a permit.
    async fn try_or_block<T: Send + 'static>(
        &self,
        context: &CallContext,
        reply: u64,
        changed: Option<FileHandle>,
        inline: impl FnOnce(&E, &NfsCaller) -> Option<T>,
        call: impl FnOnce(&E, &NfsCaller) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        if !self.policy.admits(context) || !self.policy.accepts(context) {
            return Err(Reject::AuthError(AuthStat::TooWeak));
        }
        let memory = context.reserve(reply).await;
        let caller = self.policy.caller(context).await;
        if !E::BLOCKS {
            return Ok(call(&self.export, &caller));
        }
        if let Some(answer) = inline(&self.export, &caller) {
            return Ok(answer);
        }
        let permit = self.permits.acquire(Owner::of_call(context), changed).await;
        let held = (permit.map_err(|_| Reject::SystemError)?, memory);
        let export = self.export.clone();
        let call = move || {
            // Keeps the permits and the memory until the work ends, even if the call is abandoned.
            let _held = held;
            call(&export, &caller)
        };
        tokio::task::spawn_blocking(call).await.map_err(|_| Reject::SystemError)
    }

    async fn change<T: Send + 'static>(
        &self,
        context: &CallContext,
        changed: FileHandle,
        call: impl FnOnce(&E, &NfsCaller) -> Outcome<T> + Send + 'static,
    ) -> Result<Outcome<T>, Reject> {
        self.try_change_or_block(context, changed, |_, _| None, call).await
    }

    /// Makes a change to the export through [`NfsHandler::try_or_block`]. If the handler is read-only,
    /// returns NFS3ERR_ROFS without making the change.
    async fn try_change_or_block<T: Send + 'static>(
        &self,
        context: &CallContext,
        changed: FileHandle,
        inline: impl FnOnce(&E, &NfsCaller) -> Option<(T, Wcc)>,
        call: impl FnOnce(&E, &NfsCaller) -> Outcome<T> + Send + 'static,
    ) -> Result<Outcome<T>, Reject> {
        let read_only = self.read_only;
        let inline = |export: &E, caller: &NfsCaller| {
            let (done, wcc) = if read_only { None } else { inline(export, caller) }?;
            Some(Outcome { result: Ok(done), wcc })
        };
        let change = move |export: &E, caller: &NfsCaller| {
            if read_only {
                let after = export.attributes(&changed).ok();
                return Outcome { result: Err(NfsError::RoFs), wcc: Wcc { before: None, after } };
            }
            call(export, caller)
        };
        self.try_or_block(context, 0, Some(changed), inline, change).await
    }
}
