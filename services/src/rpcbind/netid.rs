use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The network identifier of a transport (RFC 8166 section 9, RFC 5665 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Netid {
    /// RPC-over-RDMA with IPv4 addresses.
    Rdma,
    /// RPC-over-RDMA with IPv6 addresses.
    Rdma6,
    /// TCP with IPv4 addresses.
    Tcp,
    /// TCP with IPv6 addresses.
    Tcp6,
}

impl Netid {
    /// Returns the netid of RPC-over-RDMA for the family of this address.
    #[must_use]
    pub fn rdma(address: IpAddr) -> Self {
        if address.is_ipv4() { Netid::Rdma } else { Netid::Rdma6 }
    }

    /// Returns the netid of TCP for the family of this address.
    #[must_use]
    pub fn tcp(address: IpAddr) -> Self {
        if address.is_ipv4() { Netid::Tcp } else { Netid::Tcp6 }
    }

    /// Returns the name: `rdma`, `rdma6`, `tcp` or `tcp6`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Netid::Rdma => "rdma",
            Netid::Rdma6 => "rdma6",
            Netid::Tcp => "tcp",
            Netid::Tcp6 => "tcp6",
        }
    }

    pub(super) fn matches(self, address: &SocketAddr) -> bool {
        match self {
            Netid::Rdma | Netid::Tcp => address.is_ipv4(),
            Netid::Rdma6 | Netid::Tcp6 => address.is_ipv6(),
        }
    }
}

impl fmt::Display for Netid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
