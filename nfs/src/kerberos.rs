//! Kerberos for URLs with `?sec=` and for `nfs3d --sec`.

use std::ffi::CString;
use std::sync::LazyLock;

use nix::unistd::{Gid, User, getgrouplist};
use rpcrdma_krb5::{Krb5Client, Krb5Server};
use rpcrdma_runtime::{GssError, GssMechanism, GssServer};

use crate::export::NfsCaller;
use crate::nfs::Principals;

/// The GSS-API service name of NFS servers (RFC 2623).
const SERVICE: &str = "nfs";

/// Returns a client's GSS-API mechanism for the server on `host`.
///
/// # Errors
/// Fails without the feature `krb5`.
pub fn client(host: &str) -> Result<impl GssMechanism + 'static, GssError> {
    Ok(Krb5Client::new(SERVICE, host))
}

/// Returns the acceptor of RPCSEC_GSS contexts for the service `nfs`.
///
/// # Errors
/// Fails without the feature `krb5`, or if the keytab cannot be read or has no key for the service `nfs`.
pub fn server() -> Result<GssServer, GssError> {
    Ok(GssServer::new(Krb5Server::new(SERVICE)?))
}

/// Returns the mapping of principals to users. The mapping looks up a principal's local name in the password
/// database. Every call returns the same mapping, so all exports share its cache of users.
#[must_use]
pub fn principals() -> Principals {
    static SHARED: LazyLock<Principals> =
        LazyLock::new(|| Principals::new(|principal| user(&rpcrdma_krb5::local_name(principal)?)));
    SHARED.clone()
}

/// Returns a user from the password database, with all groups. Returns `None` if the user does not exist or a
/// lookup fails.
fn user(name: &str) -> Option<NfsCaller> {
    let User { uid, gid, .. } = User::from_name(name).ok()??;
    let groups = getgrouplist(&CString::new(name).ok()?, gid).ok()?;
    let gids = groups.into_iter().map(Gid::as_raw).filter(|group| *group != gid.as_raw()).collect();
    Some(NfsCaller { uid: uid.as_raw(), gid: gid.as_raw(), gids })
}
