//! Explains RPC-over-RDMA on iWARP in a capture: connections, calls with their chunks, RDMA Reads and
//! Writes of each, and replies. [`read`] accepts any capture with any contents.

mod call;
mod conversation;
mod drawing;
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

pub use call::{Call, Called, Chunk, Operation, Reply, Side, Status};
pub use conversation::{Conversation, Note};
pub use drawing::{html, svg};
pub use ladder::{Kind, Row, Selection, nothing, rows, text};
pub use packets::ReadError;
pub use summary::Summary;

use messages::Decoder;
use segments::{Segment, Sorted};
use stream::Direction;

/// All that a capture shows.
#[derive(Debug, Default)]
pub struct Trace {
    /// Its TCP connections, in the order of their beginnings. At most 16,384 are kept.
    pub connections: Vec<Connection>,
    /// Connections that are not kept. Those without iWARP are dropped first.
    pub more_connections: usize,
    /// Packets in it.
    pub packets: u64,
    /// Problems of the capture itself, or omitted parts, as text.
    pub remarks: Vec<String>,
}

/// A TCP connection.
#[derive(Debug)]
pub struct Connection {
    /// Its number in the capture, from 1.
    pub number: usize,
    /// The initiator.
    pub client: SocketAddr,
    /// The responder.
    pub server: SocketAddr,
    /// The time of its first packet, in nanoseconds since 1970.
    pub begun: u64,
    /// The time of its last packet.
    pub ended: u64,
    /// Something of it was iWARP.
    pub is_iwarp: bool,
    /// The messages.
    pub conversation: Conversation,
    /// Octets of TCP that are not in the capture, though later ones are.
    pub lost: u64,
    /// Retransmitted octets of TCP.
    pub again: u64,
}

/// Reads a capture, pcap or pcapng, to its end.
///
/// # Errors
/// [`ReadError`] if there is no packet. Problems of a part are in the trace.
pub fn read(file: impl Read + Send) -> Result<Trace, ReadError> {
    let mut reading = Reading::default();
    let trouble = packets::read(file, |packet| reading.packet(&packet))?;
    Ok(reading.finish(trouble))
}

/// The most connections that are kept.
const CONNECTIONS_MAX: usize = 16_384;

/// A capture as it is read.
#[derive(Default)]
struct Reading {
    connections: Vec<Tracked>,
    /// Connections that had to go, or for which there was no room.
    left_out: usize,
    /// There is no space, and nothing can be evicted.
    is_full: bool,
    /// The last connection between two addresses, the lower one first.
    latest: HashMap<(SocketAddr, SocketAddr), usize>,
    packets: u64,
    fragments: u64,
    unknown: Option<(i32, u64)>,
}

/// A connection as it is read.
struct Tracked {
    connection: Connection,
    /// The number that the client's SYN had.
    first: Option<u32>,
    ends: [End; 2],
}

#[derive(Default)]
struct End {
    direction: Direction,
    decoder: Decoder,
    closed: bool,
}

impl Reading {
    fn packet(&mut self, packet: &packets::Packet<'_>) {
        self.packets = self.packets.saturating_add(1);
        match segments::sort(packet) {
            Sorted::Tcp(segment) => self.segment(packet.time, &segment),
            Sorted::Fragment => self.fragments = self.fragments.saturating_add(1),
            Sorted::Other => {}
            Sorted::UnknownLink(link) => {
                let (_, count) = self.unknown.get_or_insert((link, 0));
                *count = count.saturating_add(1);
            }
        }
    }

    fn segment(&mut self, time: u64, segment: &Segment<'_>) {
        let (from, to) = (segment.from, segment.to);
        let ends = (from.min(to), from.max(to));
        let asks = segment.syn && segment.ack.is_none();
        let known = self.latest.get(&ends).and_then(|at| self.connections.get_mut(*at)).filter(|tracked| {
            // The same ports with another sequence number: another connection.
            !asks || tracked.first == Some(segment.seq)
        });
        if let Some(tracked) = known {
            return tracked.take(time, segment);
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.make_room();
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let answers = segment.syn && segment.ack.is_some();
        // Without its beginning: ports of servers are low.
        let from_client = asks || (!answers && from.port() >= to.port());
        let (client, server) = if from_client { (from, to) } else { (to, from) };
        self.latest.insert(ends, self.connections.len());
        let mut tracked = Tracked {
            connection: Connection {
                number: self.connections.len().saturating_add(self.left_out).saturating_add(1),
                client,
                server,
                begun: time,
                ended: time,
                is_iwarp: false,
                conversation: Conversation::default(),
                lost: 0,
                again: 0,
            },
            first: asks.then_some(segment.seq),
            ends: Default::default(),
        };
        tracked.take(time, segment);
        self.connections.push(tracked);
    }

    /// Drops the older half of the connections without iWARP, such as floods of SYNs.
    fn make_room(&mut self) {
        if self.is_full {
            return;
        }
        let is_other = |tracked: &Tracked| !tracked.connection.conversation.is_certain;
        let mut leaving = self.connections.iter().filter(|tracked| is_other(tracked)).count().div_ceil(2);
        // So that all calls of this take a time that is linear in the connections.
        self.is_full = leaving < CONNECTIONS_MAX / 8;
        self.left_out = self.left_out.saturating_add(leaving);
        self.connections.retain(|tracked| {
            let leaves = leaving > 0 && is_other(tracked);
            leaving = leaving.saturating_sub(usize::from(leaves));
            !leaves
        });
        let ends = |tracked: &Tracked| {
            let Connection { client, server, .. } = tracked.connection;
            (client.min(server), client.max(server))
        };
        let latest = self.connections.iter().enumerate().map(|(at, tracked)| (ends(tracked), at));
        self.latest = latest.collect();
    }

    fn finish(self, trouble: Option<&'static str>) -> Trace {
        let mut remarks: Vec<String> = trouble.map(str::to_owned).into_iter().collect();
        if self.fragments > 0 {
            remarks.push(format!("{} fragments of IP packets were omitted", self.fragments));
        }
        if let Some((link, count)) = self.unknown {
            remarks.push(format!(
                "{count} packets of another link type were omitted (the first of LINKTYPE {link})"
            ));
        }
        if self.left_out > 0 {
            remarks.push(format!(
                "{} TCP connections were omitted: {CONNECTIONS_MAX} are kept, those with iWARP first",
                self.left_out
            ));
        }
        let connections = self.connections.into_iter().map(Tracked::finish).collect();
        Trace { connections, more_connections: self.left_out, packets: self.packets, remarks }
    }
}

impl Tracked {
    fn take(&mut self, time: u64, segment: &Segment<'_>) {
        let side = if segment.from == self.connection.client { Side::Client } else { Side::Server };
        self.connection.ended = self.connection.ended.max(time);
        if let Some(ack) = segment.ack {
            self.feed(side.other(), |direction, give| direction.acknowledged(time, ack, give));
        }
        self.feed(side, |direction, give| direction.take(time, segment, give));
        let end = self.end(side);
        if (segment.fin || segment.rst) && !std::mem::replace(&mut end.closed, true) {
            let (text, trouble) =
                if segment.rst { ("breaks the connection off", true) } else { ("closes", false) };
            self.connection.conversation.note(side, time, text, trouble);
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        let [client, server] = &mut self.ends;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// Passes the data of a direction to the conversation.
    fn feed(&mut self, side: Side, work: impl FnOnce(&mut Direction, &mut dyn FnMut(stream::Piece<'_>))) {
        let crc = self.connection.conversation.crc;
        let [client, server] = &mut self.ends;
        let End { direction, decoder, .. } = match side {
            Side::Client => client,
            Side::Server => server,
        };
        decoder.crc = crc;
        let from_start = direction.from_start;
        let conversation = &mut self.connection.conversation;
        decoder.marked = conversation.markers.get(conversation::index(side)) == Some(&true);
        work(direction, &mut |piece| {
            decoder.take(piece, from_start, |said| conversation.hear(side, said));
        });
    }

    fn finish(mut self) -> Connection {
        let time = self.connection.ended;
        self.connection.is_iwarp = self.connection.conversation.is_certain;
        for side in [Side::Client, Side::Server] {
            self.feed(side, |direction, give| direction.finish(time, give));
            let End { direction, decoder, .. } = self.end(side);
            let (lost, again, cut) = (direction.lost, direction.again, decoder.is_cut());
            let connection = &mut self.connection;
            connection.lost = connection.lost.saturating_add(lost);
            connection.again = connection.again.saturating_add(again);
            if cut && connection.is_iwarp {
                connection.conversation.note(side, time, "the capture ends within a message", false);
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
