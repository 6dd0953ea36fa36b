//! The procedures of NFS version 3 and MOUNT version 3 (RFC 1813) on a server, over an [`Export`].

mod convert;
mod exports;
mod handler;
mod listing;
mod mount;
mod once;
mod policy;
mod principals;
mod turns;

use std::sync::Arc;

use rpcrdma_runtime::program::{AuthStat, CallContext, Reject};
use rpcrdma_runtime::proto::owner::Owner;

use crate::export::{Caller, Error, Export, FileHandle, Outcome, Wcc};

pub use exports::Exports;
pub use mount::MountHandler;
pub use once::must_not_run_twice;
pub use policy::{Policy, Squash};
pub use principals::Principals;

use self::turns::Turns;

/// Handles the 22 procedures of NFS version 3.
///
/// Callers have their AUTH_SYS identity unless a [`Policy`] changes it. Callers with AUTH_NONE are anonymous.
/// The export decides what they may do.
#[derive(Debug)]
pub struct NfsHandler<E> {
    export: Arc<E>,
    read_only: bool,
    policy: Arc<Policy>,
    turns: Arc<Turns>,
}

impl<E> Clone for NfsHandler<E> {
    fn clone(&self) -> Self {
        let (policy, turns) = (self.policy.clone(), self.turns.clone());
        NfsHandler { export: self.export.clone(), read_only: self.read_only, policy, turns }
    }
}

impl<E: Export> NfsHandler<E> {
    /// Serves an export to every caller, with the identity that the caller claims.
    #[must_use]
    pub fn new(export: Arc<E>) -> Self {
        NfsHandler { export, read_only: false, policy: Arc::default(), turns: Arc::default() }
    }

    /// Sets which callers are allowed and their identities. Other calls are refused with AUTH_TOOWEAK.
    #[must_use]
    pub fn policy(self, policy: Arc<Policy>) -> Self {
        NfsHandler { policy, ..self }
    }

    /// Sets whether every change is refused with NFS3ERR_ROFS.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        NfsHandler { read_only, ..self }
    }

    /// Calls the export where blocking is allowed.
    async fn ask<T: Send + 'static>(
        &self,
        context: &CallContext,
        call: impl FnOnce(&E, &Caller) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        self.try_or_block(context, None, |_, _| None, call).await
    }

    /// Does the same, but runs inline if no blocking work is needed, which saves waking two threads. Blocking
    /// work waits for its turn.
    async fn try_or_block<T: Send + 'static>(
        &self,
        context: &CallContext,
        changed: Option<FileHandle>,
        inline: impl FnOnce(&E, &Caller) -> Option<T>,
        call: impl FnOnce(&E, &Caller) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        if !self.policy.admits(context) || !self.policy.accepts(context) {
            return Err(Reject::AuthError(AuthStat::TooWeak));
        }
        let caller = self.policy.caller(context).await;
        if !E::BLOCKS {
            return Ok(call(&self.export, &caller));
        }
        if let Some(answer) = inline(&self.export, &caller) {
            return Ok(answer);
        }
        let turn = self.turns.take(Owner::of_call(context), changed).await;
        let held = (turn.map_err(|_| Reject::SystemError)?, context.reserve(0).await);
        let export = self.export.clone();
        let call = move || {
            // Held until the work ends, even if the caller stops waiting.
            let _held = held;
            call(&export, &caller)
        };
        tokio::task::spawn_blocking(call).await.map_err(|_| Reject::SystemError)
    }

    /// Calls the export to change a file or directory.
    async fn change<T: Send + 'static>(
        &self,
        context: &CallContext,
        changed: FileHandle,
        call: impl FnOnce(&E, &Caller) -> Outcome<T> + Send + 'static,
    ) -> Result<Outcome<T>, Reject> {
        self.try_change_or_block(context, changed, |_, _| None, call).await
    }

    /// Does the same, but runs inline if nothing blocks.
    async fn try_change_or_block<T: Send + 'static>(
        &self,
        context: &CallContext,
        changed: FileHandle,
        inline: impl FnOnce(&E, &Caller) -> Option<(T, Wcc)>,
        call: impl FnOnce(&E, &Caller) -> Outcome<T> + Send + 'static,
    ) -> Result<Outcome<T>, Reject> {
        let read_only = self.read_only;
        let inline = |export: &E, caller: &Caller| {
            let (done, wcc) = if read_only { None } else { inline(export, caller) }?;
            Some(Outcome { result: Ok(done), wcc })
        };
        let change = move |export: &E, caller: &Caller| {
            if read_only {
                let after = export.attributes(&changed).ok();
                return Outcome { result: Err(Error::RoFs), wcc: Wcc { before: None, after } };
            }
            call(export, caller)
        };
        self.try_or_block(context, Some(changed), inline, change).await
    }
}
