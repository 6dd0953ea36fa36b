use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use crate::wire::generated::{rpc_msg as xdr, rpcsec_gss};
use crate::xdr::{Error, XdrString, from_bytes, to_bytes};

/// Maximum size of the body of a credential or a verifier, in bytes (RFC 5531 section 8.2).
pub const MAX_AUTH_BYTES: u32 = xdr::MAX_AUTH_BYTES;
/// Maximum size of the AUTH_SYS machine name in bytes (RFC 5531 appendix A).
pub const MAX_MACHINE_NAME: usize = 255;
/// Maximum number of supplementary groups in AUTH_SYS (RFC 5531 appendix A).
pub const MAX_GIDS: usize = 16;

const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
/// The flavor of RPCSEC_GSS (RFC 2203 section 3).
pub const RPCSEC_GSS: u32 = rpcsec_gss::RPCSEC_GSS_FLAVOR;

/// `rpc_gss_svc_none`: arguments and results are not protected (RFC 2203 section 5).
const GSS_SERVICE_NONE: u32 = 1;

/// A credential (RFC 5531 section 8.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// AUTH_NONE.
    #[default]
    None,
    /// AUTH_SYS.
    Sys(AuthSys),
    /// Any other flavor, with its encoded body.
    Other {
        /// The flavor's number.
        flavor: u32,
        /// The credential's body, at most 400 bytes.
        body: Bytes,
    },
}

impl Credential {
    /// Returns true if items may be reduced in calls with this credential and in their replies. The integrity
    /// and privacy services of RPCSEC_GSS forbid reduction, since these services protect arguments and
    /// results as a whole (RFC 8166 section 8.2.2.3). Returns false for an RPCSEC_GSS credential without a
    /// valid service.
    #[must_use]
    pub fn allows_reduction(&self) -> bool {
        match self {
            Credential::Other { flavor: RPCSEC_GSS, body } => {
                // The service follows the version, the control procedure and the sequence number.
                body.get(12..16).is_some_and(|service| service == GSS_SERVICE_NONE.to_be_bytes())
            }
            _ => true,
        }
    }

    /// Returns true if a call with this credential may be retransmitted unchanged. A server accepts each
    /// sequence number of RPCSEC_GSS only once (RFC 2203 section 5.3.3.1).
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        !matches!(self, Credential::Other { flavor: RPCSEC_GSS, .. })
    }
}

/// The body of an AUTH_SYS credential (RFC 5531 appendix A).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSys {
    /// An arbitrary number chosen by the caller.
    pub stamp: u32,
    /// The caller's machine name, at most 255 bytes.
    pub machine_name: String,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups, at most 16.
    pub gids: Vec<u32>,
}

/// A verifier, which authenticates a call's credential or a reply (RFC 5531 section 8.2). The default is
/// AUTH_NONE, without authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verifier {
    /// The flavor's number.
    pub flavor: u32,
    /// The verifier's body, at most 400 bytes.
    pub body: Bytes,
}

impl Verifier {
    pub(super) fn to_xdr(&self) -> xdr::OpaqueAuth {
        xdr::OpaqueAuth { flavor: self.flavor.cast_signed(), body: self.body.clone().into() }
    }
}

impl From<xdr::OpaqueAuth> for Verifier {
    fn from(auth: xdr::OpaqueAuth) -> Self {
        Verifier { flavor: auth.flavor.cast_unsigned(), body: auth.body.into_bytes() }
    }
}

/// The reason why a server rejects a credential or a verifier (RFC 5531 section 9, `auth_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStat {
    /// AUTH_BADCRED: the credential cannot be decoded.
    BadCredential,
    /// AUTH_REJECTEDCRED: the client must create a new session.
    RejectedCredential,
    /// AUTH_BADVERF: the verifier cannot be decoded.
    BadVerifier,
    /// AUTH_REJECTEDVERF: the verifier has expired or was replayed.
    RejectedVerifier,
    /// AUTH_TOOWEAK: the server requires stronger authentication.
    TooWeak,
    /// RPCSEC_GSS_CREDPROBLEM: the context is unknown, or the verifier is wrong. The client must create a new
    /// context.
    GssCredentialProblem,
    /// RPCSEC_GSS_CTXPROBLEM: the context has expired or is unusable. The client must create a new context.
    GssContextProblem,
    /// Any other value. A value that RFC 5531 does not define is sent as AUTH_FAILED.
    Other(i32),
}

impl From<AuthStat> for i32 {
    fn from(stat: AuthStat) -> i32 {
        match stat {
            AuthStat::BadCredential => 1,
            AuthStat::RejectedCredential => 2,
            AuthStat::BadVerifier => 3,
            AuthStat::RejectedVerifier => 4,
            AuthStat::TooWeak => 5,
            AuthStat::GssCredentialProblem => 13,
            AuthStat::GssContextProblem => 14,
            AuthStat::Other(value) => value,
        }
    }
}

impl From<i32> for AuthStat {
    fn from(value: i32) -> AuthStat {
        match value {
            1 => AuthStat::BadCredential,
            2 => AuthStat::RejectedCredential,
            3 => AuthStat::BadVerifier,
            4 => AuthStat::RejectedVerifier,
            5 => AuthStat::TooWeak,
            13 => AuthStat::GssCredentialProblem,
            14 => AuthStat::GssContextProblem,
            other => AuthStat::Other(other),
        }
    }
}

/// Encodes the body of a credential. Fails if an AUTH_SYS machine name or group list exceeds its bound.
/// Encoding the result checks the size of the body.
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

/// Decodes a credential. Fails if the body of an AUTH_SYS credential cannot be decoded. Ignores the body of
/// an AUTH_NONE credential.
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
