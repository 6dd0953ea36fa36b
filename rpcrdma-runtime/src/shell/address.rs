use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use tokio::net::TcpListener;

use super::ServeError;
use crate::provider::resolve;

/// One or more addresses to connect to or to bind, each with a port: text such as `"host:7800"`, socket
/// addresses, or a pair such as `("host", 7800)`. The standard library's types that implement
/// `std::net::ToSocketAddrs` also implement this trait. A client resolves the names for each connection, and
/// skips names that cannot be resolved. A server fails to bind if any name cannot be resolved. If there are
/// several addresses, the first address that works is used.
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

/// Resolves the result of [`ToAddress::to_address`]. Fails if any name cannot be resolved.
async fn all_addresses(text: &str) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for name in text.split(',') {
        addresses.extend(resolve(name).await?);
    }
    Ok(addresses)
}

pub(super) async fn bind(address: String) -> Result<TcpListener, ServeError> {
    let bound = async { TcpListener::bind(&*all_addresses(&address).await?).await }.await;
    bound.map_err(|source| ServeError::Bind { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_text() {
        let [v4, v6] =
            [SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), SocketAddr::from((Ipv6Addr::LOCALHOST, 1))];
        assert_eq!([("host", 1).to_address(), ("host".to_owned(), 1).to_address()], ["host:1"; 2]);
        assert_eq!(["host:1".to_address(), "host:1".to_owned().to_address()], ["host:1"; 2]);
        let of_v4 = (Ipv4Addr::LOCALHOST, 1);
        let socket = SocketAddrV4::new(of_v4.0, 1);
        assert_eq!([v4.to_address(), of_v4.to_address(), socket.to_address()], ["127.0.0.1:1"; 3]);
        let of_v6 = (Ipv6Addr::LOCALHOST, 1);
        let socket = SocketAddrV6::new(of_v6.0, 1, 0, 0);
        assert_eq!([v6.to_address(), of_v6.to_address(), socket.to_address()], ["[::1]:1"; 3]);
        assert_eq!([(v6.ip(), 1).to_address(), ("::1", 1).to_address()], ["[::1]:1"; 2]);
        let both = [v6, v4];
        assert_eq!([both.to_address(), both[..].to_address()], ["[::1]:1,127.0.0.1:1"; 2]);
    }

    #[cfg(target_os = "linux")] // the loopback interface has the name `lo` and the index 1
    #[tokio::test]
    async fn an_ipv6_zone_has_a_name_or_a_number() {
        let address = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, 1));
        for host in ["fe80::1%lo", "fe80::1%1"] {
            let text = (host, 80).to_address();
            assert_eq!(all_addresses(&text).await.unwrap(), [address], "{text}");
        }
    }
}
