use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::net::TcpStream;

use super::packet::{Flag, MAX_PAYLOAD, Segment};
use super::{Capture, CaptureError, CaptureFile};
use crate::proto::iwarp::{Agreed, Role};
use crate::wire::iwarp::{Markers, fpdu};

/// The distance between the initial sequence numbers of successive connections. The distance is odd, so that
/// all initial numbers differ and Wireshark detects a reused port as a new connection.
const SEQUENCE_STRIDE: u32 = 0x3c6e_f35f;

/// Captures one connection, or nothing if `None`.
#[derive(Debug)]
pub(in super::super) struct Tap(Option<Box<Recorder>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Local,
    Peer,
}

#[derive(Debug)]
struct Recorder {
    file: CaptureFile,
    flow: (SocketAddr, SocketAddr),
    local: Direction,
    peer: Direction,
    /// Octets at the front of the connection's output queue that are already recorded.
    recorded: usize,
}

#[derive(Debug)]
struct Direction {
    from: SocketAddr,
    seq: u32,
    ended: bool,
    splitter: PacketSplitter,
}

/// Splits the stream into packets. After the handshake, no packet contains octets of two FPDUs, because
/// Wireshark (4.0) loses messages if several messages end in one packet.
#[derive(Debug, Default)]
struct PacketSplitter {
    /// Whether the MPA handshake is complete, so that the stream consists of FPDUs.
    framed: bool,
    markers: Option<Markers>,
    /// Remaining octets of the current FPDU.
    remaining: usize,
    /// The start of an FPDU whose length field is incomplete.
    head: Vec<u8>,
}

impl PacketSplitter {
    fn begin(&mut self, markers: bool) {
        self.framed = true;
        self.markers = markers.then(Markers::default);
    }

    /// Returns the number of `octets` to put in the next packet: at least one unless `octets` is empty.
    fn next(&mut self, octets: &[u8]) -> usize {
        let max = octets.len().min(MAX_PAYLOAD);
        if !self.framed {
            return max;
        }
        if self.remaining == 0 {
            let known = self.head.len();
            let needed = fpdu::LENGTH_LEN + self.markers.map_or(0, |markers| markers.length_at());
            self.head.extend(octets.iter().take(needed.saturating_sub(known)));
            let len = match &self.markers {
                None => fpdu::len(&self.head),
                Some(markers) => markers.fpdu_len(&self.head),
            };
            let Some(len) = len else { return max };
            self.head.clear();
            self.remaining = len.saturating_sub(known);
            if let Some(markers) = &mut self.markers {
                markers.skip(len);
            }
        }
        let len = self.remaining.min(max);
        self.remaining = self.remaining.saturating_sub(len);
        len
    }
}

impl Tap {
    /// Opens the capture file, if any, so that an error is reported before a connection is made.
    ///
    /// # Errors
    /// [`CaptureError`] if the file cannot be written.
    pub(in super::super) fn prepare(capture: &Capture) -> Result<(), CaptureError> {
        capture.file().map(drop)
    }

    /// Starts the capture of a new TCP connection. Records nothing if the peer is in this process and already
    /// captures the connection in the same file.
    ///
    /// # Errors
    /// [`CaptureError`] if the file cannot be written.
    pub(in super::super) fn open(
        capture: &Capture,
        socket: &TcpStream,
        role: Role,
    ) -> Result<Self, CaptureError> {
        let Some(file) = capture.file()? else { return Ok(Tap(None)) };
        // A connection that is already lost has no peer address and nothing to capture.
        let (Ok(local), Ok(peer)) = (socket.local_addr(), socket.peer_addr()) else { return Ok(Tap(None)) };
        let flow = if role == Role::Initiator { (local, peer) } else { (peer, local) };
        let Some(number) = file.begin(flow) else { return Ok(Tap(None)) };
        let seq = number.wrapping_mul(SEQUENCE_STRIDE);
        let direction = |from| Direction { from, seq, ended: false, splitter: PacketSplitter::default() };
        let mut recorder =
            Box::new(Recorder { file, flow, local: direction(local), peer: direction(peer), recorded: 0 });
        recorder.record_handshake(role);
        Ok(Tap(Some(recorder)))
    }

    pub(in super::super) fn begin_fpdus(&mut self, agreed: Agreed) {
        if let Some(recorder) = &mut self.0 {
            recorder.local.splitter.begin(agreed.markers_out);
            recorder.peer.splitter.begin(agreed.markers_in);
        }
    }

    /// Records octets before they are written to TCP, so that the capture of a killed process contains
    /// everything that the peer received.
    pub(in super::super) fn sending(&mut self, octets: &[u8]) {
        self.record(Side::Local, octets);
    }

    pub(in super::super) fn sending_all(&mut self, queue: &VecDeque<Bytes>) {
        let Some(recorder) = &mut self.0 else { return };
        let mut known = recorder.recorded;
        let mut octets = Vec::new();
        for piece in queue {
            let skipped = known.min(piece.len());
            known -= skipped;
            octets.extend_from_slice(piece.get(skipped..).unwrap_or_default());
        }
        recorder.recorded = recorder.recorded.saturating_add(octets.len());
        // Records all pieces in one call, because a packet may contain parts of several pieces.
        self.sending(&octets);
    }

    pub(in super::super) fn sent(&mut self, count: usize) {
        if let Some(recorder) = &mut self.0 {
            recorder.recorded = recorder.recorded.saturating_sub(count);
        }
    }

    pub(in super::super) fn received(&mut self, octets: &[u8]) {
        self.record(Side::Peer, octets);
    }

    fn record(&mut self, by: Side, octets: &[u8]) {
        if let Some(recorder) = &mut self.0 {
            let mut rest = octets;
            while !rest.is_empty() {
                let len = recorder.direction(by).splitter.next(rest);
                let (piece, after) = rest.split_at_checked(len).unwrap_or((rest, &[]));
                let flag = if after.is_empty() { Flag::Push } else { Flag::None };
                recorder.put(by, flag, piece);
                rest = after;
            }
        }
    }

    pub(in super::super) fn closed(&mut self) {
        self.record_end(Side::Local, Flag::Fin);
    }

    pub(in super::super) fn peer_closed(&mut self) {
        self.record_end(Side::Peer, Flag::Fin);
    }

    pub(in super::super) fn peer_reset(&mut self) {
        self.record_end(Side::Peer, Flag::Reset);
    }

    fn record_end(&mut self, by: Side, flag: Flag) {
        if let Some(recorder) = &mut self.0 {
            let direction = recorder.direction(by);
            if !std::mem::replace(&mut direction.ended, true) {
                recorder.put(by, flag, &[]);
            }
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.closed();
        if let Some(recorder) = &self.0 {
            recorder.file.end(&recorder.flow);
        }
    }
}

impl Recorder {
    /// Writes the three packets that open a connection (RFC 9293 section 3.5).
    fn record_handshake(&mut self, role: Role) {
        let (initiator, responder) = match role {
            Role::Initiator => (Side::Local, Side::Peer),
            Role::Responder => (Side::Peer, Side::Local),
        };
        self.put(initiator, Flag::Syn, &[]);
        self.put(responder, Flag::Syn, &[]);
        self.put(initiator, Flag::None, &[]);
    }

    fn put(&mut self, by: Side, flag: Flag, payload: &[u8]) {
        let (this, other) = match by {
            Side::Local => (&mut self.local, &self.peer),
            Side::Peer => (&mut self.peer, &self.local),
        };
        // The initiator's SYN acknowledges nothing, because the responder has not sent its SYN yet.
        let first = flag == Flag::Syn && this.seq == other.seq;
        let ack = (!first).then_some(other.seq);
        let segment = Segment { from: this.from, to: other.from, seq: this.seq, ack, flag };
        self.file.append(&segment, payload);
        let counted = u32::from(matches!(flag, Flag::Syn | Flag::Fin));
        let len = u32::try_from(payload.len()).unwrap_or(0);
        this.seq = this.seq.wrapping_add(len).wrapping_add(counted);
    }

    fn direction(&mut self, by: Side) -> &mut Direction {
        match by {
            Side::Local => &mut self.local,
            Side::Peer => &mut self.peer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a stream that arrives in pieces of `step` octets, and returns the lengths of the packets.
    fn packets(stream: &[u8], step: usize, markers: bool) -> Vec<usize> {
        let mut splitter = PacketSplitter::default();
        splitter.begin(markers);
        let mut lengths = Vec::new();
        for mut piece in stream.chunks(step) {
            while !piece.is_empty() {
                let len = splitter.next(piece);
                assert!(len > 0);
                lengths.push(len);
                piece = &piece[len..];
            }
        }
        lengths
    }

    #[test]
    fn no_packet_completes_two_fpdus() {
        // ULPDUs of 2, 14 and 65,535 octets.
        let mut stream = vec![0; 8 + 20];
        (stream[1], stream[9]) = (2, 14);
        stream.extend([0xff; 2]);
        stream.resize(28 + fpdu::MAX_LEN, 0);
        assert_eq!(packets(&stream, stream.len(), false), [8, 20, MAX_PAYLOAD, fpdu::MAX_LEN - MAX_PAYLOAD]);
        for step in 1..40 {
            let mut at = 0;
            for len in packets(&stream, step, false) {
                for end in [8, 28] {
                    assert!(at + len <= end || at >= end, "pieces of {step}: {len} octets at {at}");
                }
                at += len;
            }
            assert_eq!(at, stream.len());
        }
    }

    #[test]
    fn packets_of_a_stream_with_markers_end_with_its_fpdus() {
        // FPDUs of 8, 504 and 16 octets, not counting two markers of 4 octets: one before the first FPDU, and
        // one within the second.
        let mut stream = vec![0; 4 + 8 + 504 + 4 + 16];
        stream[5] = 2;
        stream[12..14].copy_from_slice(&498_u16.to_be_bytes());
        stream[521] = 10;
        assert_eq!(packets(&stream, stream.len(), true), [12, 508, 16]);
        for step in 1..40 {
            let mut ends = Vec::new();
            for len in packets(&stream, step, true) {
                ends.push(ends.last().unwrap_or(&0) + len);
            }
            assert!([12, 520, 536].iter().all(|end| ends.contains(end)), "pieces of {step}: {ends:?}");
        }
    }
}
