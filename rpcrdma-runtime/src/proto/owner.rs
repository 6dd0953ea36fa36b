//! The owners of a server's resources.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;

use super::program::CallContext;
use super::rpc::gss::GssCaller;

/// The owner of a server's resources: connections, memory, blocking work, cached replies, and calls that may
/// have ended a connection. Owners share most of these resources fairly.
///
/// The owner is the peer's IPv4 address, or the 64-bit prefix of its IPv6 address, since one host can use
/// every address of its prefix. The owner of an RPCSEC_GSS call is its authenticated caller, at any address.
/// All peers without an address have the same owner.
///
/// A server learns the caller only from the RPC header. Connections, memory, and calls that may have ended a
/// connection need an owner before the header is read. Their owner is therefore always an address
/// ([`Owner::of_peer`]). Blocking work and cached replies have the owner of their call ([`Owner::of_call`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// An IPv4 address, or an IPv6 address whose low 64 bits are zero.
    Address(IpAddr),
    /// The name of an RPCSEC_GSS caller, in the mechanism's format.
    Principal(Bytes),
}

impl Owner {
    /// Returns the owner of a connection.
    #[must_use]
    pub fn of_peer(peer: Option<SocketAddr>) -> Self {
        peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip()).into()
    }

    /// Returns the owner of a call.
    #[must_use]
    pub fn of_call(context: &CallContext) -> Self {
        if let Some(caller) = context.extensions.get::<GssCaller>() {
            return Owner::Principal(caller.name.clone());
        }
        Owner::of_peer(context.peer)
    }
}

impl From<IpAddr> for Owner {
    fn from(address: IpAddr) -> Self {
        Owner::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::program::{Credential, Extensions};
    use crate::proto::rpc::gss::GssService;

    #[test]
    fn a_prefix_of_ipv6_is_one_owner() {
        let owner = |text: &str| Owner::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:0:0:2"));
        assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
        assert_eq!(owner("::ffff:192.0.2.1"), owner("192.0.2.1"));
        assert_ne!(owner("192.0.2.1"), owner("192.0.2.2"));
    }

    #[test]
    fn an_authenticated_caller_is_one_owner_at_all_addresses() {
        let owner = |name: Option<&'static str>, last: u8| {
            let caller = |name: &'static str| GssCaller { name: name.into(), service: GssService::None };
            let extensions = name.map(caller).into_iter().fold(Extensions::default(), Extensions::with);
            let peer = Some(SocketAddr::from(([192, 0, 2, last], 700)));
            Owner::of_call(&CallContext {
                xid: 1,
                program: 1,
                version: 1,
                procedure: 1,
                credential: Credential::None,
                peer,
                extensions,
            })
        };
        assert_eq!(owner(Some("alice"), 1), owner(Some("alice"), 2));
        assert_ne!(owner(Some("alice"), 1), owner(Some("bob"), 1));
        assert_ne!(owner(Some("alice"), 1), owner(None, 1));
        assert_ne!(owner(None, 1), owner(None, 2));
    }
}
