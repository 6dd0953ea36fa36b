//! The security flavors of NFS calls: AUTH_SYS, and the three services of Kerberos 5.

use std::fmt;
use std::str::FromStr;

use rpcrdma_runtime::program::{CallContext, Credential};
use rpcrdma_runtime::{GssCaller, GssService};

/// How calls authenticate their callers, weakest first. The names are those of Linux's mount option `sec=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Security {
    /// AUTH_SYS: the client claims the user without proof.
    #[default]
    Sys,
    /// Kerberos authenticates the user. Data is not protected.
    Krb5,
    /// Kerberos authenticates the user and detects changes to the data.
    Krb5i,
    /// Kerberos authenticates the user and encrypts the data.
    Krb5p,
}

impl Security {
    const ALL: [Security; 4] = [Security::Sys, Security::Krb5, Security::Krb5i, Security::Krb5p];

    /// Returns this flavor's number in MOUNT's reply: AUTH_SYS or a pseudo-flavor of Kerberos (RFC 2623).
    #[must_use]
    pub fn flavor(self) -> i32 {
        match self {
            Security::Sys => 1,
            Security::Krb5 => 390_003,
            Security::Krb5i => 390_004,
            Security::Krb5p => 390_005,
        }
    }

    /// Returns the security flavor with this number in MOUNT's reply, or `None` if the number is unknown.
    #[must_use]
    pub fn from_flavor(flavor: i32) -> Option<Self> {
        Security::ALL.into_iter().find(|security| security.flavor() == flavor)
    }

    /// Returns the RPCSEC_GSS service that this flavor uses, or `None` for AUTH_SYS.
    #[must_use]
    pub fn service(self) -> Option<GssService> {
        match self {
            Security::Sys => None,
            Security::Krb5 => Some(GssService::None),
            Security::Krb5i => Some(GssService::Integrity),
            Security::Krb5p => Some(GssService::Privacy),
        }
    }

    /// Returns the security flavor of a call. AUTH_NONE counts as AUTH_SYS: neither authenticates the caller.
    /// Returns `None` for an unknown flavor.
    pub(crate) fn of(context: &CallContext) -> Option<Self> {
        if let Some(caller) = context.extensions.get::<GssCaller>() {
            return Security::ALL.into_iter().find(|security| security.service() == Some(caller.service));
        }
        match context.credential {
            Credential::None | Credential::Sys(_) => Some(Security::Sys),
            Credential::Other { .. } => None,
        }
    }
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Security::Sys => "sys",
            Security::Krb5 => "krb5",
            Security::Krb5i => "krb5i",
            Security::Krb5p => "krb5p",
        })
    }
}

impl FromStr for Security {
    type Err = UnknownSecurity;

    fn from_str(name: &str) -> Result<Self, UnknownSecurity> {
        Security::ALL.into_iter().find(|security| security.to_string() == name).ok_or(UnknownSecurity)
    }
}

/// The name of the security flavor is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected sys, krb5, krb5i or krb5p")]
pub struct UnknownSecurity;
