//! IP and TCP packets with the lengths and checksums that they would have on a network.

use std::net::{IpAddr, SocketAddr};

use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader, TcpOptionElement};

/// Maximum payload of one packet, in octets. Including headers, the packet's length fits in IPv4's length
/// field.
pub(super) const MAX_PAYLOAD: usize = 65_480;

/// The window field of all packets. [`WINDOW_SHIFT`] scales this value to almost 1 GiB (RFC 7323 section 2).
/// The real window is unknown, and the data could appear to exceed a smaller window.
const WINDOW: u16 = u16::MAX;
const WINDOW_SHIFT: u8 = 14;
const HOPS: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    Syn,
    Push,
    Fin,
    Reset,
    None,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    /// The acknowledgment number, or `None` in the first packet of a connection.
    pub(super) ack: Option<u32>,
    pub(super) flag: Flag,
}

impl Segment {
    /// Appends the packet to `buffer`. Returns `None` if the address families differ or the payload is too
    /// long.
    pub(super) fn write(&self, payload: &[u8], buffer: &mut Vec<u8>) -> Option<()> {
        let ip = match (self.from.ip().to_canonical(), self.to.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOPS),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOPS),
            _ => return None,
        };
        let tcp = self.flags(ip.tcp(self.from.port(), self.to.port(), self.seq, WINDOW))?;
        tcp.write(buffer, payload).ok()
    }

    fn flags(&self, tcp: PacketBuilderStep<TcpHeader>) -> Option<PacketBuilderStep<TcpHeader>> {
        let tcp = match self.ack {
            Some(ack) => tcp.ack(ack),
            None => tcp,
        };
        Some(match self.flag {
            Flag::Syn => tcp
                .syn()
                .options(&[TcpOptionElement::Noop, TcpOptionElement::WindowScale(WINDOW_SHIFT)])
                .ok()?,
            Flag::Push => tcp.psh(),
            Flag::Fin => tcp.fin(),
            Flag::Reset => tcp.rst(),
            Flag::None => tcp,
        })
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{LaxSlicedPacket, NetSlice, SlicedPacket, TransportSlice};

    use super::*;

    fn packet(from: &str, to: &str, flag: Flag, payload: &[u8]) -> Option<Vec<u8>> {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let mut buffer = Vec::new();
        Segment { from, to, seq: 7, ack: Some(9), flag }.write(payload, &mut buffer).map(|()| buffer)
    }

    #[test]
    fn lengths_and_checksums_are_right_for_both_families() {
        let payload = vec![0xa5; MAX_PAYLOAD];
        for (from, to) in [("192.0.2.1:1", "192.0.2.2:2"), ("[2001:db8::1]:1", "[2001:db8::2]:2")] {
            for (flag, len) in [(Flag::Syn, 0), (Flag::Push, 3), (Flag::None, MAX_PAYLOAD), (Flag::Fin, 0)] {
                let octets = packet(from, to, flag, &payload[..len]).unwrap();
                let sliced = SlicedPacket::from_ip(&octets).unwrap();
                let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
                assert_eq!(tcp.payload(), &payload[..len]);
                let sum = match sliced.net.unwrap() {
                    NetSlice::Ipv4(ip) => {
                        assert_eq!(
                            ip.header().to_header().calc_header_checksum(),
                            ip.header().header_checksum()
                        );
                        tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
                    }
                    NetSlice::Ipv6(ip) => {
                        tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
                    }
                    NetSlice::Arp(_) => panic!("no IP"),
                };
                assert_eq!(sum.unwrap(), tcp.checksum());
                assert_eq!((tcp.sequence_number(), tcp.acknowledgment_number()), (7, 9));
            }
        }
    }

    #[test]
    fn mapped_ipv4_is_ipv4_and_mixed_families_are_rejected() {
        let mapped = packet("[::ffff:192.0.2.1]:1", "192.0.2.2:2", Flag::Push, b"x").unwrap();
        assert!(LaxSlicedPacket::from_ip(&mapped).is_ok());
        assert_eq!(mapped[0] >> 4, 4);
        assert_eq!(packet("[2001:db8::1]:1", "192.0.2.2:2", Flag::Push, b"x"), None);
    }
}
