//! Universal addresses, rpcbind's text form of an address and a port (RFC 5665 section 5.2.3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The length of the longest universal address: an IPv6 address with an embedded IPv4 address, and both
/// octets of the port.
const MAX_LEN: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len() + ".255.255".len();

/// Formats an IP address and a port as a universal address: `192.0.2.1.78.81` is port 20049 of 192.0.2.1.
///
/// The zone of an IPv6 address is omitted, because a zone is meaningless on another machine.
#[must_use]
pub fn to_universal(address: &SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// Parses a universal address. Returns `None` if the text is invalid.
///
/// Accepts the output of [`to_universal`] and other spellings of IPv6 addresses. Rejects signs, spaces,
/// zones, names and decimal numbers with leading zeros.
#[must_use]
pub fn from_universal(text: &str) -> Option<SocketAddr> {
    if text.len() > MAX_LEN {
        return None;
    }
    let (rest, low) = text.rsplit_once('.')?;
    let (ip, high) = rest.rsplit_once('.')?;
    let port = u16::from_be_bytes([octet(high)?, octet(low)?]);
    let v4 = || ip.parse::<Ipv4Addr>().ok().map(IpAddr::from);
    let v6 = || ip.parse::<Ipv6Addr>().ok().map(IpAddr::from);
    let ip = v4().or_else(v6)?;
    Some(SocketAddr::new(ip, port))
}

/// Parses a number from 0 to 255 without a sign or leading zeros.
fn octet(text: &str) -> Option<u8> {
    let is_canonical =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_and_ipv6_addresses_round_trip() {
        for (address, universal) in [
            ("192.0.2.1:20049", "192.0.2.1.78.81"),
            ("0.0.0.0:111", "0.0.0.0.0.111"),
            ("255.255.255.255:65535", "255.255.255.255.255.255"),
            ("[::]:20049", "::.78.81"),
            ("[2001:db8::7]:2049", "2001:db8::7.8.1"),
            ("[::ffff:192.0.2.1]:1", "::ffff:192.0.2.1.0.1"),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(to_universal(&address), universal);
            assert_eq!(from_universal(universal), Some(address), "{universal}");
        }
    }

    #[test]
    fn a_zone_is_omitted() {
        let address: SocketAddr = "[fe80::1%3]:80".parse().expect("an address");
        assert_eq!(to_universal(&address), "fe80::1.0.80");
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        let long = "0".repeat(1 << 20);
        for text in [
            "",
            ".",
            "..",
            "78.81",
            "1.2.3.4",
            "1.2.3.4.78",
            "1.2.3.4.78.81.0",
            "1.2.3.4.256.1",
            "1.2.3.4.+1.1",
            "1.2.3.4.-1.1",
            "1.2.3.4. 1.1",
            "1.2.3.4.01.1",
            "01.2.3.4.1.1",
            "1.2.3.256.1.1",
            "1.2.3.4.1.",
            "1.2.3.4..1",
            "localhost.1.1",
            "fe80::1%eth0.0.80",
            "[::1].0.80",
            "::1::2.0.80",
            "::12345.0.80",
            "1.2.3.4.\u{661}.1",
            long.as_str(),
        ] {
            assert_eq!(from_universal(text), None, "{text:.40}");
        }
    }
}
