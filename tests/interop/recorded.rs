//! Writes a capture of the traffic through a relay, and parses captures into MPA frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use rpcrdma_runtime::wire::iwarp::Opcode;

use crate::framed::{Frame, Splitter, have_crcs, reencode_fpdu, reencode_handshake};
use crate::relay::Watch;

/// The pcap file header: magic number (timestamps in nanoseconds), version 2.4, time zone correction,
/// accuracy, maximum packet length, link type (raw IP).
const HEAD: [u32; 6] = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 101];
const PORTS: [u16; 2] = [40_000, 20_049];
const SYN: u8 = 2;
const FIN: u8 = 1;

/// Records one connection, with one packet for each MPA frame.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    splitters: [Splitter; 2],
    seq: [u32; 2],
    file: Vec<u8>,
}

impl Recording {
    pub(crate) fn begin() -> Arc<Mutex<Self>> {
        let mut recording = Recording::default();
        recording.file.extend(HEAD.iter().flat_map(|word| word.to_le_bytes()));
        recording.packet(0, SYN, &[]);
        recording.packet(1, SYN, &[]);
        recording.packet(0, 0, &[]);
        Arc::new(Mutex::new(recording))
    }

    pub(crate) fn watch(recording: &Arc<Mutex<Self>>) -> Watch {
        let recording = recording.clone();
        Arc::new(Mutex::new(move |to_server: bool, bytes: &[u8]| {
            recording.lock().unwrap().see(to_server, bytes)
        }))
    }

    fn see(&mut self, to_server: bool, bytes: &[u8]) {
        let side = usize::from(!to_server);
        for frame in self.splitters[side].take(bytes) {
            self.packet(side, 0, &frame.octets);
        }
    }

    pub(crate) fn end(&mut self) -> Vec<u8> {
        assert!(
            self.splitters.iter().all(|splitter| splitter.rest().is_empty()),
            "the connection ended within a frame"
        );
        self.packet(0, FIN, &[]);
        self.packet(1, FIN, &[]);
        std::mem::take(&mut self.file)
    }

    fn packet(&mut self, side: usize, flag: u8, payload: &[u8]) {
        let addresses = [[10, 0, 2, 15], [10, 0, 2, 2]];
        let builder = PacketBuilder::ipv4(addresses[side], addresses[1 - side], 64);
        let mut builder = builder.tcp(PORTS[side], PORTS[1 - side], self.seq[side], 65_535);
        if flag != SYN || side == 1 {
            builder = builder.ack(self.seq[1 - side]);
        }
        builder = match flag {
            SYN => builder.syn(),
            FIN => builder.fin(),
            _ => builder.psh(),
        };
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let len = u32::try_from(packet.len()).unwrap();
        for word in [u32::try_from(now.as_secs()).unwrap(), now.subsec_nanos(), len, len] {
            self.file.extend(word.to_le_bytes());
        }
        self.file.extend(packet);
        let counted = u32::from(flag != 0) + u32::try_from(payload.len()).unwrap();
        self.seq[side] = self.seq[side].wrapping_add(counted);
    }
}

/// Returns the client's and the server's frames for each connection in a capture.
///
/// The capture must contain every TCP octet once and in order. Captures written by this module or by
/// `rpcrdma-runtime` meet this condition.
fn connections(capture: &Path) -> Vec<[Vec<Frame>; 2]> {
    let file = fs::read(capture).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut known) = (4 * HEAD.len(), BTreeMap::new());
    let mut connections: Vec<[(Splitter, Vec<Frame>); 2]> = Vec::new();
    while at < file.len() {
        let len = usize::try_from(word(at + 8)).unwrap();
        let packet = SlicedPacket::from_ip(&file[at + 16..at + 16 + len]).unwrap();
        at += 16 + len;
        let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("not TCP") };
        let (from, to) = (tcp.source_port(), tcp.destination_port());
        if tcp.syn() && !tcp.ack() {
            known.insert((from, to), (connections.len(), 0));
            known.insert((to, from), (connections.len(), 1));
            connections.push(Default::default());
        }
        let (connection, side) = known[&(from, to)];
        let (splitter, frames) = &mut connections[connection][side];
        frames.extend(splitter.take(tcp.payload()));
    }
    let complete = |(splitter, frames): (Splitter, Vec<Frame>)| {
        assert!(splitter.rest().is_empty());
        frames
    };
    connections.into_iter().map(|sides| sides.map(complete)).collect()
}

/// Checks that our codec decodes every frame of a capture and encodes it to the same octets. Also checks that
/// Sends, RDMA Writes, Read Requests and Read Responses all occur. Returns the number of frames.
pub(crate) fn check_every_frame(capture: &Path) -> usize {
    let (mut count, mut seen) = (0, [false; 4]);
    for [client, server] in connections(capture) {
        let crc = have_crcs(&client[0].octets, &server[0].octets);
        for (frame, from_client) in
            client.iter().map(|frame| (frame, true)).chain(server.iter().map(|frame| (frame, false)))
        {
            let again = if frame.handshake {
                reencode_handshake(&frame.octets)
            } else {
                let (opcode, again) = reencode_fpdu(&frame.octets, crc, from_client);
                match opcode {
                    Opcode::Send { .. } => seen[0] = true,
                    Opcode::Write => seen[1] = true,
                    Opcode::ReadRequest => seen[2] = true,
                    Opcode::ReadResponse => seen[3] = true,
                    Opcode::Terminate => {}
                }
                again
            };
            assert_eq!(again, frame.octets, "CRC: {crc}, from the client: {from_client}");
            count += 1;
        }
    }
    assert_eq!(seen, [true; 4], "expected Sends, RDMA Writes, Read Requests and Read Responses");
    count
}
