//! Conversion between Rust socket addresses and `sockaddr_storage`.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{c_int, sa_family_t, sockaddr_in, sockaddr_in6, sockaddr_storage};

const IPV4: sa_family_t = family(libc::AF_INET);
const IPV6: sa_family_t = family(libc::AF_INET6);

#[allow(clippy::cast_possible_truncation, reason = "the assertion limits the value")]
const fn family(number: c_int) -> sa_family_t {
    assert!(number > 0 && number < 256);
    number.cast_unsigned() as sa_family_t
}

pub(super) fn to_storage(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: the structure contains only integers, so all zeros is a valid value.
    let mut storage: sockaddr_storage = unsafe { mem::zeroed() };
    let at = &raw mut storage;
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: as above.
            let mut v4: sockaddr_in = unsafe { mem::zeroed() };
            v4.sin_family = IPV4;
            v4.sin_port = address.port().to_be();
            v4.sin_addr.s_addr = u32::from(*address.ip()).to_be();
            // SAFETY: `at` points to a `sockaddr_storage`, which is large enough and suitably aligned for the
            // address of every family.
            unsafe { at.cast::<sockaddr_in>().write(v4) };
        }
        SocketAddr::V6(address) => {
            // SAFETY: the structure contains only integers, so all zeros is a valid value.
            let mut v6: sockaddr_in6 = unsafe { mem::zeroed() };
            v6.sin6_family = IPV6;
            v6.sin6_port = address.port().to_be();
            v6.sin6_addr.s6_addr = address.ip().octets();
            v6.sin6_flowinfo = address.flowinfo();
            v6.sin6_scope_id = address.scope_id();
            // SAFETY: `at` points to a `sockaddr_storage`, which is large enough and suitably aligned for the
            // address of every family.
            unsafe { at.cast::<sockaddr_in6>().write(v6) };
        }
    }
    storage
}

pub(super) fn from_storage(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let at = &raw const *storage;
    match storage.ss_family {
        IPV4 => {
            // SAFETY: `at` points to an initialized `sockaddr_storage`, which is large enough and suitably
            // aligned for this type. Every bit pattern is a valid value.
            let v4 = unsafe { at.cast::<sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        IPV6 => {
            // SAFETY: as above.
            let v6 = unsafe { at.cast::<sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_and_ipv6_addresses_round_trip() {
        for address in ["192.0.2.1:20049", "0.0.0.0:0", "[2001:db8::1]:20049", "[::]:65535"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(from_storage(&to_storage(address)), Some(address));
        }
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, 3).into();
        assert_eq!(from_storage(&to_storage(scoped)), Some(scoped));
    }

    #[test]
    fn other_families_are_rejected() {
        // SAFETY: the structure contains only integers, so all zeros is a valid value.
        let none: sockaddr_storage = unsafe { mem::zeroed() };
        assert_eq!(from_storage(&none), None);
    }
}
