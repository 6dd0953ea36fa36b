use alloc::string::ToString;

use bytes::Bytes;

use crate::proto::program::{AuthStat, AuthSys, Credential};
use crate::wire::generated::rpc_msg as xdr;
use crate::xdr::{Error, Opaque, XdrString, from_bytes, to_bytes};

/// The largest body of a credential or a verifier, in bytes (RFC 5531 section 8.2).
pub const MAX_AUTH_BYTES: u32 = xdr::MAX_AUTH_BYTES;
/// The longest machine name of AUTH_SYS, in bytes (RFC 5531 appendix A).
pub const MAX_MACHINE_NAME: usize = 255;
/// The most groups of AUTH_SYS besides the first (RFC 5531 appendix A).
pub const MAX_GIDS: usize = 16;

const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;

pub(super) fn none() -> xdr::OpaqueAuth {
    xdr::OpaqueAuth { flavor: 0, body: Opaque::default() }
}

/// # Errors
/// A machine name, groups or a body that break their bounds.
pub(super) fn encode(credential: &Credential) -> Result<xdr::OpaqueAuth, Error> {
    let (flavor, body) = match credential {
        Credential::None => (AUTH_NONE, Bytes::new()),
        Credential::Sys(sys) => (
            AUTH_SYS,
            to_bytes(&xdr::AuthsysParms {
                stamp: sys.stamp,
                machinename: XdrString::from(sys.machine_name.as_str()),
                uid: sys.uid,
                gid: sys.gid,
                gids: sys.gids.clone(),
            })?,
        ),
        Credential::Other { flavor, body } => (*flavor, body.clone()),
    };
    Ok(xdr::OpaqueAuth { flavor: flavor.cast_signed(), body: body.into() })
}

/// # Errors
/// [`AuthStat::BadCredential`] if AUTH_NONE has a body or AUTH_SYS's cannot be read.
pub(super) fn decode(auth: &xdr::OpaqueAuth) -> Result<Credential, AuthStat> {
    match auth.flavor.cast_unsigned() {
        AUTH_NONE => Ok(Credential::None),
        AUTH_SYS => {
            let sys: xdr::AuthsysParms =
                from_bytes(auth.body.as_bytes()).map_err(|_| AuthStat::BadCredential)?;
            Ok(Credential::Sys(AuthSys {
                stamp: sys.stamp,
                machine_name: sys.machinename.to_string(),
                uid: sys.uid,
                gid: sys.gid,
                gids: sys.gids,
            }))
        }
        flavor => Ok(Credential::Other { flavor, body: auth.body.as_bytes().clone() }),
    }
}
