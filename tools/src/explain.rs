//! Explains the RPC-over-RDMA traffic in a capture of iWARP: connections, calls with their chunks, the RDMA
//! Reads and Writes of each call, and replies. [`read`] accepts captures with arbitrary contents.

mod call;
mod conversation;
mod drawing;
mod keys;
mod ladder;
mod messages;
mod names;
mod packets;
mod repeated;
mod scale;
mod segments;
mod stream;
mod summary;
mod values;

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;

pub use call::{Call, CalledProcedure, Chunk, Operation, Peer, Reply, Status};
pub use conversation::{Conversation, Note};
pub use drawing::{html, svg};
pub use ladder::{Row, RowKind, Selection, empty_report, rows, text};
pub use packets::ReadError;
pub use summary::ConnectionSummary;

use messages::Decoder;
use segments::{Classified, Segment};
use stream::Direction;

/// The contents of a capture.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trace = rpcrdma_tools::explain::read(std::fs::File::open("nfs.pcap")?)?;
/// for connection in trace.connections.iter().filter(|connection| connection.is_iwarp) {
///     println!("{} to {}: {} bytes lost", connection.client, connection.server, connection.lost);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Trace {
    /// The TCP connections in the order of their first packets, at most 16,384.
    pub connections: Vec<CapturedConnection>,
    /// The number of connections without iWARP that were omitted to make room for newer connections.
    pub more_connections: usize,
    /// The number of packets.
    pub packets: u64,
    /// Descriptions of problems in the capture and of omitted parts.
    pub remarks: Vec<String>,
}

/// A TCP connection in a capture.
#[derive(Debug)]
pub struct CapturedConnection {
    /// The connection's number in the capture, counted from 1.
    pub number: usize,
    /// The initiator. If the first captured packet is neither SYN nor SYN-ACK, the peer with the higher port
    /// counts as the initiator.
    pub client: SocketAddr,
    /// The responder.
    pub server: SocketAddr,
    /// The time of the first packet, in nanoseconds since 1970.
    pub start: u64,
    /// The time of the last packet, in nanoseconds since 1970.
    pub end: u64,
    /// True if the connection carries iWARP.
    pub is_iwarp: bool,
    /// The calls and other events.
    pub conversation: Conversation,
    /// The number of bytes missing from the capture before the last captured byte of each direction.
    pub lost: u64,
    /// The number of retransmitted bytes.
    pub retransmitted: u64,
}

/// Reads a pcap or pcapng capture.
///
/// # Errors
/// Returns [`ReadError`] if the file is empty, unreadable or not a capture. Other problems are listed in the
/// trace.
pub fn read(file: impl Read + Send) -> Result<Trace, ReadError> {
    let mut reading = Reading::default();
    let problem = packets::read(file, |packet| reading.packet(&packet))?;
    Ok(reading.finish(problem))
}

const CONNECTIONS_MAX: usize = 16_384;

#[derive(Default)]
struct Reading {
    connections: Vec<Tracked>,
    omitted: usize,
    /// The number of packets omitted because `connections` has no room for their connection.
    rejected: u64,
    /// True once an eviction has removed fewer than `CONNECTIONS_MAX / 8` connections. No further eviction
    /// runs then.
    is_full: bool,
    /// The index of the latest connection for each pair of addresses. The lower address comes first.
    latest: HashMap<(SocketAddr, SocketAddr), usize>,
    packets: u64,
    fragments: u64,
    unknown: Option<(i32, u64)>,
}

struct Tracked {
    connection: CapturedConnection,
    /// The sequence number of the client's SYN.
    syn: Option<u32>,
    peers: [PeerState; 2],
}

#[derive(Default)]
struct PeerState {
    direction: Direction,
    decoder: Decoder,
    closed: bool,
}

impl Reading {
    fn packet(&mut self, packet: &packets::Packet<'_>) {
        self.packets = self.packets.saturating_add(1);
        match segments::classify(packet) {
            Classified::Tcp(segment) => self.segment(packet.time, &segment),
            Classified::Fragment => self.fragments = self.fragments.saturating_add(1),
            Classified::Other => {}
            Classified::UnknownLink(link) => {
                let (_, count) = self.unknown.get_or_insert((link, 0));
                *count = count.saturating_add(1);
            }
        }
    }

    fn segment(&mut self, time: u64, segment: &Segment<'_>) {
        let (from, to) = (segment.from, segment.to);
        let addresses = (from.min(to), from.max(to));
        let is_syn = segment.syn && segment.ack.is_none();
        let known =
            self.latest.get(&addresses).and_then(|at| self.connections.get_mut(*at)).filter(|tracked| {
                // A SYN with another sequence number on the same ports starts a new connection.
                !is_syn || tracked.syn == Some(segment.seq)
            });
        if let Some(tracked) = known {
            return tracked.take(time, segment);
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.make_room();
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.rejected = self.rejected.saturating_add(1);
            return;
        }
        let is_syn_ack = segment.syn && segment.ack.is_some();
        // Without a SYN, the lower port is probably the server's.
        let from_client = is_syn || (!is_syn_ack && from.port() >= to.port());
        let (client, server) = if from_client { (from, to) } else { (to, from) };
        self.latest.insert(addresses, self.connections.len());
        let mut tracked = Tracked {
            connection: CapturedConnection {
                number: self.connections.len().saturating_add(self.omitted).saturating_add(1),
                client,
                server,
                start: time,
                end: time,
                is_iwarp: false,
                conversation: Conversation::default(),
                lost: 0,
                retransmitted: 0,
            },
            syn: is_syn.then_some(segment.seq),
            peers: Default::default(),
        };
        tracked.take(time, segment);
        self.connections.push(tracked);
    }

    /// Drops the older half of the connections without iWARP, such as those of a SYN flood.
    fn make_room(&mut self) {
        if self.is_full {
            return;
        }
        let is_other = |tracked: &Tracked| !tracked.connection.conversation.is_certain;
        let mut leaving = self.connections.iter().filter(|tracked| is_other(tracked)).count().div_ceil(2);
        // Keeps the total time of all evictions linear in the number of connections.
        self.is_full = leaving < CONNECTIONS_MAX / 8;
        self.omitted = self.omitted.saturating_add(leaving);
        self.connections.retain(|tracked| {
            let leaves = leaving > 0 && is_other(tracked);
            leaving = leaving.saturating_sub(usize::from(leaves));
            !leaves
        });
        let addresses = |tracked: &Tracked| {
            let CapturedConnection { client, server, .. } = tracked.connection;
            (client.min(server), client.max(server))
        };
        let latest = self.connections.iter().enumerate().map(|(at, tracked)| (addresses(tracked), at));
        self.latest = latest.collect();
    }

    fn finish(self, problem: Option<&'static str>) -> Trace {
        let mut remarks: Vec<String> = problem.map(str::to_owned).into_iter().collect();
        if self.fragments > 0 {
            remarks.push(format!("IP fragments omitted: {}", self.fragments));
        }
        if let Some((link, count)) = self.unknown {
            remarks.push(format!(
                "packets of unsupported link types omitted: {count} (the first has LINKTYPE {link})"
            ));
        }
        if self.omitted > 0 {
            remarks.push(format!(
                "TCP connections omitted: {} (at most {CONNECTIONS_MAX} are kept, those with iWARP first)",
                self.omitted
            ));
        }
        if self.rejected > 0 {
            remarks.push(format!(
                "packets omitted: {} (their TCP connections exceed the limit of {CONNECTIONS_MAX})",
                self.rejected
            ));
        }
        let connections = self.connections.into_iter().map(Tracked::finish).collect();
        Trace { connections, more_connections: self.omitted, packets: self.packets, remarks }
    }
}

impl Tracked {
    fn take(&mut self, time: u64, segment: &Segment<'_>) {
        let peer = if segment.from == self.connection.client { Peer::Client } else { Peer::Server };
        self.connection.end = self.connection.end.max(time);
        if let Some(ack) = segment.ack {
            self.feed(peer.other(), |direction, emit| direction.acknowledged(time, ack, emit));
        }
        self.feed(peer, |direction, emit| direction.take(time, segment, emit));
        let state = self.state(peer);
        if (segment.fin || segment.rst) && !std::mem::replace(&mut state.closed, true) {
            let (text, problem) =
                if segment.rst { ("resets the connection", true) } else { ("closes", false) };
            self.connection.conversation.note(peer, time, text, problem);
        }
    }

    fn state(&mut self, peer: Peer) -> &mut PeerState {
        let [client, server] = &mut self.peers;
        match peer {
            Peer::Client => client,
            Peer::Server => server,
        }
    }

    fn feed(&mut self, peer: Peer, run: impl FnOnce(&mut Direction, &mut dyn FnMut(stream::Piece<'_>))) {
        let crc = self.connection.conversation.crc;
        let [client, server] = &mut self.peers;
        let PeerState { direction, decoder, .. } = match peer {
            Peer::Client => client,
            Peer::Server => server,
        };
        decoder.crc = crc;
        let from_start = direction.from_start;
        let conversation = &mut self.connection.conversation;
        decoder.marked = conversation.markers.get(conversation::index(peer)) == Some(&true);
        run(direction, &mut |piece| {
            decoder.take(piece, from_start, |message| conversation.receive(peer, message));
        });
    }

    fn finish(mut self) -> CapturedConnection {
        let time = self.connection.end;
        for peer in [Peer::Client, Peer::Server] {
            self.feed(peer, |direction, emit| direction.finish(time, emit));
        }
        // Set only now, because the last bytes of either peer may be the first that identify iWARP.
        self.connection.is_iwarp = self.connection.conversation.is_certain;
        for peer in [Peer::Client, Peer::Server] {
            let PeerState { direction, decoder, .. } = self.state(peer);
            let (lost, retransmitted, cut) = (direction.lost, direction.retransmitted, decoder.is_cut());
            let connection = &mut self.connection;
            connection.lost = connection.lost.saturating_add(lost);
            connection.retransmitted = connection.retransmitted.saturating_add(retransmitted);
            if cut && connection.is_iwarp {
                connection.conversation.note(peer, time, "the capture ends within a message", false);
            }
        }
        self.connection.conversation.finish(time);
        let mut number = 0usize;
        for call in &mut self.connection.conversation.calls {
            number = number.saturating_add(1);
            call.number = number;
        }
        self.connection
    }
}
