//! Kerberos 5 as the security mechanism of RPCSEC_GSS, through the system's GSS-API library.
//!
//! A client needs a ticket (`kinit`). A server needs the key of its service in a keytab. Both use the
//! system's configuration: `krb5.conf`, and the environment variables `KRB5_CONFIG`, `KRB5CCNAME` and
//! `KRB5_KTNAME`.
//!
//! ```no_run
//! # #[cfg(feature = "gssapi")]
//! # mod example {
//! use rpcrdma_krb5::Krb5Server;
//! use rpcrdma_runtime::{GssError, GssServer, Services};
//!
//! fn protect(services: &mut Services) -> Result<(), GssError> {
//!     services.with_gss(GssServer::new(Krb5Server::new("nfs")?));
//!     Ok(())
//! }
//! # }
//! ```
//!
//! Without the feature `gssapi`, the crate is empty. The README lists the system packages that the
//! feature needs.
//!
//! | to | use |
//! |---|---|
//! | call with the user's ticket | [`Krb5Client`] |
//! | accept calls with the key of a service | [`Krb5Server`] |
//! | map a client's principal to a user | [`local_name`] |
//!
//! Error messages include the cause and the fix if they are known.

#![cfg_attr(not(feature = "gssapi"), allow(rustdoc::broken_intra_doc_links))]
#![cfg(feature = "gssapi")]

mod causes;
mod context;

use libgssapi::context::{ClientCtx, CtxFlags, ServerCtx};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_KRB5_PRINCIPAL, OidSet};
use rpcrdma_runtime::{GssError, GssExchange, GssMechanism};

use self::context::{Exchange, Role};

/// The mechanism of a client. It creates contexts with one service, for the user whose ticket is in the
/// credential cache.
///
/// Each context uses the ticket that is in the cache when the context is created.
#[derive(Clone, Debug)]
pub struct Krb5Client {
    /// `SERVICE@HOST`.
    service: String,
}

impl Krb5Client {
    /// Returns the mechanism for a service, such as `nfs`, on a host. The principal of the service is
    /// `SERVICE/HOST`. The system's configuration (`dns_canonicalize_hostname`, `rdns`) determines
    /// whether HOST is replaced by its canonical name from DNS.
    #[must_use]
    pub fn new(service: &str, host: &str) -> Self {
        Krb5Client { service: format!("{service}@{host}") }
    }

    fn exchange(&self) -> Result<Exchange<ClientCtx>, Error> {
        let service = Name::new(self.service.as_bytes(), Some(GSS_NT_HOSTBASED_SERVICE))?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG | CtxFlags::GSS_C_CONF_FLAG;
        let context = ClientCtx::new(None, service, flags, Some(GSS_MECH_KRB5));
        Ok(Exchange::new(context, Role::Client { service: self.service.clone() }))
    }
}

impl GssMechanism for Krb5Client {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        let exchange = self.exchange().map_err(|error| causes::of_client(error, &self.service))?;
        Ok(Box::new(exchange))
    }

    fn explain(&self, refused: GssError) -> GssError {
        causes::of_refusal(refused, &self.service)
    }
}

/// The mechanism of a server. It accepts contexts for one service, with any of the service's keys in the
/// keytab.
///
/// A client's name is its principal, such as `alice@EXAMPLE.ORG`.
#[derive(Clone)]
pub struct Krb5Server(Cred);

impl Krb5Server {
    /// Opens the keytab that `KRB5_KTNAME` names, or the system's default.
    ///
    /// # Errors
    /// Returns [`GssError`] if the keytab cannot be read or has no key for the service.
    pub fn new(service: &str) -> Result<Self, GssError> {
        let keys = || {
            let name = Name::new(service.as_bytes(), Some(GSS_NT_HOSTBASED_SERVICE))?;
            let kerberos = OidSet::singleton(GSS_MECH_KRB5)?;
            Cred::acquire(Some(&name), None, CredUsage::Accept, Some(&kerberos))
        };
        keys().map(Krb5Server).map_err(|error| causes::of_keytab(error, service))
    }
}

impl GssMechanism for Krb5Server {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        Ok(Box::new(Exchange::new(ServerCtx::new(Some(self.0.clone())), Role::Server)))
    }
}

/// Returns the name of the local user to which the `auth_to_local` rules in `krb5.conf` map a principal.
/// Returns `None` if no rule applies. By default, the user is the principal without its realm if the
/// principal has one component and belongs to the default realm.
#[must_use]
pub fn local_name(principal: &[u8]) -> Option<String> {
    let name = Name::new(principal, Some(GSS_NT_KRB5_PRINCIPAL)).ok()?;
    let user = name.local_name(Some(GSS_MECH_KRB5)).ok()?;
    String::from_utf8(user.to_vec()).ok()
}
