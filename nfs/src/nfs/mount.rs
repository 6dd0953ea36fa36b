use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use rpcrdma_mount3::{
    self as mount3, Dirpath, ExportnodeElement, GroupnodeElement, Groups, MountbodyElement, Mountlist,
    Mountres3, Mountres3Ok, Mountstat3, mount_v3,
};
use rpcrdma_runtime::Owner;
use rpcrdma_runtime::program::{AuthStat, CallContext, Reject};

use super::exports::Served;
use super::{ExportPolicy, Exports, NfsHandler};
use crate::export::{Export, FileHandle, FileKind, NfsCaller, NfsError};
use crate::security::Security;

/// Maximum number of recorded mounts; the oldest are dropped first. The list is only informational. The
/// limit bounds the size of a DUMP reply.
const MOUNTS_MAX: usize = 128;
/// Maximum number of networks in an EXPORT reply. The limit bounds the size of the reply.
const NETS_MAX: usize = 1000;
const EXPORTS_MAX: usize = 128;
const AUTH_NONE: i32 = 0;

/// Handles MOUNT version 3. Directories below an export can be mounted too.
#[derive(Debug)]
pub struct MountHandler<E> {
    exports: Exports<E>,
    mounts: Mutex<VecDeque<(String, Dirpath)>>,
}

impl<E: Export> MountHandler<E> {
    /// Serves one export at `/`.
    #[must_use]
    pub fn new(export: Arc<E>) -> Self {
        MountHandler::of(NfsHandler::new(export).into())
    }

    /// Serves several exports. If exports are nested, a path belongs to the innermost export.
    #[must_use]
    pub fn of(exports: Exports<E>) -> Self {
        MountHandler { exports, mounts: Mutex::default() }
    }

    /// Sets the policy of all exports. If the policy does not admit a caller, MNT returns MNT3ERR_ACCES, and
    /// calls of all procedures except NULL and MNT are rejected with AUTH_TOOWEAK. Later calls to
    /// [`Exports::replace`] on the original exports do not affect the returned handler.
    #[must_use]
    pub fn policy(self, policy: Arc<ExportPolicy>) -> Self {
        let with = |(path, handler): &(String, NfsHandler<E>)| {
            (path.clone(), handler.clone().policy(policy.clone()))
        };
        let exports = Exports::new(self.exports.served().iter().map(with));
        MountHandler { exports, ..self }
    }

    /// # Errors
    /// AUTH_TOOWEAK if no export admits the caller.
    fn must_admit(&self, context: &CallContext) -> Result<(), Reject> {
        let admits = self.exports.served().iter().any(|(_, of)| of.policy.admits(context));
        if admits { Ok(()) } else { Err(Reject::AuthError(AuthStat::TooWeak)) }
    }

    fn mounts(&self) -> MutexGuard<'_, VecDeque<(String, Dirpath)>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, host: String, path: Dirpath) {
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

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Returns the innermost export that contains a path, and the components of the path below that export.
fn find<'a, E>(
    served: &'a Served<E>,
    path: &'a [u8],
) -> Option<(&'a NfsHandler<E>, impl Iterator<Item = &'a [u8]> + Clone)> {
    let below = |of: &str| {
        let mut path = names(path);
        names(of.as_bytes()).all(|name| path.next() == Some(name)).then_some(path)
    };
    let found = served.iter().filter_map(|(of, handler)| Some((handler, below(of)?)));
    found.min_by_key(|(_, below)| below.clone().count())
}

/// Returns the flavors that NFS calls may use. If AUTH_SYS is accepted, calls with AUTH_NONE are accepted as
/// anonymous calls, so AUTH_NONE is included.
fn flavors(policy: &ExportPolicy) -> Vec<i32> {
    let none = policy.security.contains(&Security::Sys).then_some(AUTH_NONE);
    policy.security.iter().map(|security| security.flavor()).chain(none).collect()
}

/// Looks up a directory with the caller's rights. Links are not followed.
fn walk(export: &impl Export, caller: &NfsCaller, path: &[Vec<u8>]) -> Result<FileHandle, NfsError> {
    let mut at = export.root();
    for name in path {
        let found = export.lookup(caller, &at, name)?;
        if found.attributes.kind != FileKind::Directory {
            return Err(NfsError::NotDir);
        }
        at = found.handle;
    }
    Ok(at)
}

fn status(error: NfsError) -> Mountstat3 {
    match error {
        NfsError::Perm => Mountstat3::Mnt3errPerm,
        NfsError::NoEnt | NfsError::Stale => Mountstat3::Mnt3errNoent,
        NfsError::Io => Mountstat3::Mnt3errIo,
        NfsError::Acces => Mountstat3::Mnt3errAcces,
        NfsError::NotDir => Mountstat3::Mnt3errNotdir,
        NfsError::Inval => Mountstat3::Mnt3errInval,
        NfsError::NameTooLong => Mountstat3::Mnt3errNametoolong,
        _ => Mountstat3::Mnt3errServerfault,
    }
}

fn host(context: &CallContext) -> String {
    context.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.ip().to_string())
}

impl<E: Export> mount_v3::Handler for MountHandler<E> {
    async fn mnt(&self, context: &CallContext, path: Dirpath) -> Result<Mountres3, Reject> {
        let served = self.exports.served();
        let Some((handler, below)) = find(&served, &path) else {
            return Ok(Mountres3::Default(Mountstat3::Mnt3errNoent));
        };
        if !handler.policy.admits(context) {
            return Ok(Mountres3::Default(Mountstat3::Mnt3errAcces));
        }
        let (export, caller) = (handler.export.clone(), handler.policy.caller(context).await);
        let below: Vec<_> = below.map(<[u8]>::to_vec).collect();
        let permit =
            handler.permits.acquire(Owner::of_call(context), None).await.map_err(|_| Reject::SystemError)?;
        let find = move || {
            // Keeps the permit until the work ends, even if the call is abandoned.
            let _permit = permit;
            walk(&*export, &caller, &below)
        };
        let auth_flavors = flavors(&handler.policy);
        let found = tokio::task::spawn_blocking(find).await.map_err(|_| Reject::SystemError)?;
        Ok(match found {
            Ok(fhandle) => {
                self.record(host(context), path);
                Mountres3::Mnt3Ok(Mountres3Ok { fhandle, auth_flavors })
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

    async fn export(&self, context: &CallContext) -> Result<mount3::Exports, Reject> {
        self.must_admit(context)?;
        let net = |net: &IpNet| GroupnodeElement { gr_name: net.to_string().as_str().into() };
        let served = self.exports.served();
        let admits = |(_, of): &&(String, NfsHandler<E>)| of.policy.admits(context);
        let mut room = NETS_MAX;
        let listed = served.iter().filter(admits).take(EXPORTS_MAX).map(|(path, of)| {
            let groups: Vec<_> = of.policy.allow.iter().take(room).map(net).collect();
            room -= groups.len();
            ExportnodeElement { ex_dir: path.as_str().into(), ex_groups: Groups(groups) }
        });
        Ok(mount3::Exports(listed.collect()))
    }
}
