//! Extracts TCP segments from packets.

use std::net::SocketAddr;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};

use super::packets::Packet;

/// LINKTYPE numbers from the tcpdump.org registry.
const NULL: i32 = 0;
const ETHERNET: i32 = 1;
const RAW_BSD: [i32; 2] = [12, 14];
const RAW: i32 = 101;
const LOOP: i32 = 108;
const COOKED: i32 = 113;
const IPV4: i32 = 228;
const IPV6: i32 = 229;
const COOKED_2: i32 = 276;

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// The sequence number of the first byte or of the SYN.
    pub(super) seq: u32,
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    /// The captured part of the payload.
    pub(super) payload: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Classified<'a> {
    Tcp(Segment<'a>),
    /// An IP fragment, which is not reassembled.
    Fragment,
    Other,
    UnknownLink(i32),
}

#[must_use]
pub(super) fn classify<'a>(packet: &Packet<'a>) -> Classified<'a> {
    let data = packet.data;
    let ip = |at: usize| data.get(at..).and_then(|rest| LaxSlicedPacket::from_ip(rest).ok());
    let typed = |kind: usize, at: usize| {
        let kind = data.get(kind..)?.first_chunk()?;
        Some(LaxSlicedPacket::from_ether_type(EtherType(u16::from_be_bytes(*kind)), data.get(at..)?))
    };
    let sliced = match packet.link {
        ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        RAW | IPV4 | IPV6 => ip(0),
        kind if RAW_BSD.contains(&kind) => ip(0),
        NULL | LOOP => ip(4),
        COOKED => typed(14, 16),
        COOKED_2 => typed(0, 20),
        other => return Classified::UnknownLink(other),
    };
    sliced.map_or(Classified::Other, |sliced| tcp(&sliced))
}

fn tcp<'a>(sliced: &LaxSlicedPacket<'a>) -> Classified<'a> {
    let (from, to) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        _ => return Classified::Other,
    };
    match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => Classified::Tcp(Segment {
            from: SocketAddr::new(from, tcp.source_port()),
            to: SocketAddr::new(to, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            syn: tcp.syn(),
            fin: tcp.fin(),
            rst: tcp.rst(),
            payload: tcp.payload(),
        }),
        _ if sliced.ip_payload().is_some_and(|payload| payload.fragmented) => Classified::Fragment,
        _ => Classified::Other,
    }
}
