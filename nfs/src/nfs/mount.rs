use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use rpcrdma_mount3::{
    Dirpath, ExportnodeElement, Exports, GroupnodeElement, Groups, MountbodyElement, Mountlist, Mountres3,
    Mountres3Ok, Mountstat3, mount_v3,
};
use rpcrdma_runtime::proto::program::{AuthStat, CallContext, Reject};

use super::Policy;
use crate::export::{Caller, Error, Export, FileHandle, FileKind};
use crate::security::Security;

/// Maximum number of recorded mounts; the oldest are dropped first. The list is informational, and its
/// reply is bounded.
const MOUNTS_MAX: usize = 128;
/// Maximum number of networks in an EXPORT reply, which is bounded.
const NETS_MAX: usize = 1000;
/// The number of AUTH_NONE.
const AUTH_NONE: i32 = 0;

/// Handles MOUNT version 3 for one export with the path `/`. Directories below it can be mounted too.
#[derive(Debug)]
pub struct MountHandler<E> {
    export: Arc<E>,
    mounts: Mutex<VecDeque<(String, Dirpath)>>,
    policy: Arc<Policy>,
}

impl<E: Export> MountHandler<E> {
    /// Serves an export.
    #[must_use]
    pub fn new(export: Arc<E>) -> Self {
        MountHandler { export, mounts: Mutex::default(), policy: Arc::default() }
    }

    /// Sets which addresses may mount the export. For others, MNT returns MNT3ERR_ACCES, and all other
    /// procedures except NULL are refused with AUTH_TOOWEAK.
    #[must_use]
    pub fn policy(self, policy: Arc<Policy>) -> Self {
        MountHandler { policy, ..self }
    }

    /// # Errors
    /// AUTH_TOOWEAK if the policy does not admit the caller.
    fn must_admit(&self, context: &CallContext) -> Result<(), Reject> {
        if self.policy.admits(context) { Ok(()) } else { Err(Reject::AuthError(AuthStat::TooWeak)) }
    }

    /// Returns the flavors that NFS accepts. Callers with AUTH_NONE are anonymous where AUTH_SYS is accepted.
    fn flavors(&self) -> Vec<i32> {
        let security = &self.policy.security;
        let none = security.contains(&Security::Sys).then_some(AUTH_NONE);
        security.iter().map(|security| security.flavor()).chain(none).collect()
    }

    fn mounts(&self) -> MutexGuard<'_, VecDeque<(String, Dirpath)>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, host: String, path: Dirpath) {
        let mut mounts = self.mounts();
        let mount = (host, path);
        if mounts.contains(&mount) {
            return;
        }
        if mounts.len() >= MOUNTS_MAX {
            mounts.pop_front();
        }
        mounts.push_back(mount);
    }
}

/// Returns the directory of a path, if the caller may search it. Links are not followed.
fn walk(export: &impl Export, caller: &Caller, path: &[u8]) -> Result<FileHandle, Error> {
    let mut at = export.root();
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let found = export.lookup(caller, &at, name)?;
        if found.attributes.kind != FileKind::Directory {
            return Err(Error::NotDir);
        }
        at = found.handle;
    }
    Ok(at)
}

fn status(error: Error) -> Mountstat3 {
    match error {
        Error::Perm => Mountstat3::Mnt3errPerm,
        Error::NoEnt | Error::Stale => Mountstat3::Mnt3errNoent,
        Error::Io => Mountstat3::Mnt3errIo,
        Error::Acces => Mountstat3::Mnt3errAcces,
        Error::NotDir => Mountstat3::Mnt3errNotdir,
        Error::Inval => Mountstat3::Mnt3errInval,
        Error::NameTooLong => Mountstat3::Mnt3errNametoolong,
        _ => Mountstat3::Mnt3errServerfault,
    }
}

fn host(context: &CallContext) -> String {
    context.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.ip().to_string())
}

impl<E: Export> mount_v3::Handler for MountHandler<E> {
    async fn mnt(&self, context: &CallContext, path: Dirpath) -> Result<Mountres3, Reject> {
        if !self.policy.admits(context) {
            return Ok(Mountres3::Default(Mountstat3::Mnt3errAcces));
        }
        let (export, wanted) = (self.export.clone(), path.clone());
        let caller = self.policy.caller(context).await;
        let find = move || walk(&*export, &caller, &wanted);
        let found = tokio::task::spawn_blocking(find).await.map_err(|_| Reject::SystemError)?;
        Ok(match found {
            Ok(fhandle) => {
                self.remember(host(context), path);
                Mountres3::Mnt3Ok(Mountres3Ok { fhandle, auth_flavors: self.flavors() })
            }
            Err(error) => Mountres3::Default(status(error)),
        })
    }

    async fn dump(&self, context: &CallContext) -> Result<Mountlist, Reject> {
        self.must_admit(context)?;
        let body = |(host, path): &(String, Dirpath)| MountbodyElement {
            ml_hostname: host.as_str().into(),
            ml_directory: path.clone(),
        };
        Ok(Mountlist(self.mounts().iter().map(body).collect()))
    }

    async fn umnt(&self, context: &CallContext, path: Dirpath) -> Result<(), Reject> {
        self.must_admit(context)?;
        let host = host(context);
        self.mounts().retain(|mount| mount.0 != host || mount.1 != path);
        Ok(())
    }

    async fn umntall(&self, context: &CallContext) -> Result<(), Reject> {
        self.must_admit(context)?;
        let host = host(context);
        self.mounts().retain(|mount| mount.0 != host);
        Ok(())
    }

    async fn export(&self, context: &CallContext) -> Result<Exports, Reject> {
        self.must_admit(context)?;
        let net = |net: &IpNet| GroupnodeElement { gr_name: net.to_string().as_str().into() };
        let ex_groups = Groups(self.policy.allow.iter().take(NETS_MAX).map(net).collect());
        Ok(Exports(vec![ExportnodeElement { ex_dir: "/".into(), ex_groups }]))
    }
}
