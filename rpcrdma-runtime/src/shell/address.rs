use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use tokio::net::TcpListener;

use crate::provider::addresses;

/// A host and a port, to connect to or to bind: text such as `"host:7800"`, socket addresses, or a pair such
/// as `("host", 7800)`. The standard library's types that implement `std::net::ToSocketAddrs` also implement
/// this trait. Names are resolved for each connection. If there are several addresses, the first address that
/// works is used.
pub trait ToAddress {
    /// Returns the host and the port as text. An IPv6 address is in brackets. Several addresses are separated
    /// by commas.
    fn to_address(&self) -> String;
}

impl<A: ToAddress + ?Sized> ToAddress for &A {
    fn to_address(&self) -> String {
        (**self).to_address()
    }
}

macro_rules! by_display {
    ($($address:ty),+) => {$(
        impl ToAddress for $address {
            fn to_address(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

by_display!(str, String, SocketAddr, SocketAddrV4, SocketAddrV6);

macro_rules! pairs {
    ($($ip:ty),+) => {$(
        impl ToAddress for ($ip, u16) {
            fn to_address(&self) -> String {
                SocketAddr::from(*self).to_string()
            }
        }
    )+};
}

pairs!(IpAddr, Ipv4Addr, Ipv6Addr);

impl ToAddress for (&str, u16) {
    fn to_address(&self) -> String {
        let (host, port) = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl ToAddress for (String, u16) {
    fn to_address(&self) -> String {
        (self.0.as_str(), self.1).to_address()
    }
}

impl ToAddress for [SocketAddr] {
    fn to_address(&self) -> String {
        self.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
    }
}

impl<const LEN: usize> ToAddress for [SocketAddr; LEN] {
    fn to_address(&self) -> String {
        self[..].to_address()
    }
}

/// Resolves an address, and binds the first result that can be bound.
pub(super) async fn bind(address: &str) -> io::Result<TcpListener> {
    TcpListener::bind(&*addresses(address).await?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_text() {
        let v6 = Ipv6Addr::LOCALHOST;
        assert_eq!("host:1".to_address(), "host:1");
        assert_eq!(("host", 7800).to_address(), "host:7800");
        assert_eq!((Ipv4Addr::LOCALHOST, 1).to_address(), "127.0.0.1:1");
        for address in [(v6, 1).to_address(), ("::1", 1).to_address(), SocketAddr::from((v6, 1)).to_address()]
        {
            assert_eq!(address, "[::1]:1");
        }
        let both = [SocketAddr::from((v6, 1)), SocketAddr::from((Ipv4Addr::LOCALHOST, 2))];
        assert_eq!([both.to_address(), both[..].to_address()], ["[::1]:1,127.0.0.1:2"; 2]);
    }
}
