use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::net::TcpStream;

use super::packet::{Flag, MAX_PAYLOAD, Segment};
use super::{Capture, CaptureError, CaptureFile};
use crate::proto::iwarp::Role;

/// How far apart the first sequence numbers of connections are: odd, so that no two are the same, and a port that comes
/// again is known for a new connection.
const APART: u32 = 0x3c6e_f35f;

/// One connection's way into a capture; most often there is none, and then it does nothing.
#[derive(Debug)]
pub(in super::super) struct Tap(Option<Box<Recorder>>);

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum End {
    /// This one.
    Near,
    /// The peer.
    Far,
}

#[derive(Debug)]
struct Recorder {
    file: CaptureFile,
    flow: (SocketAddr, SocketAddr),
    near: Direction,
    far: Direction,
}

/// What one end sends.
#[derive(Debug)]
struct Direction {
    from: SocketAddr,
    seq: u32,
    ended: bool,
}

impl Tap {
    /// Begins with a TCP connection that has just been made. Nothing is written if the capture has it from the other end.
    ///
    /// # Errors
    /// [`CaptureError`]: there is no file to write to.
    pub(in super::super) fn open(
        capture: &Capture,
        socket: &TcpStream,
        role: Role,
    ) -> Result<Self, CaptureError> {
        let Some(file) = capture.file()? else { return Ok(Tap(None)) };
        // A connection that is gone already has no addresses, and nothing to capture.
        let (Ok(near), Ok(far)) = (socket.local_addr(), socket.peer_addr()) else { return Ok(Tap(None)) };
        let flow = if role == Role::Initiator { (near, far) } else { (far, near) };
        let Some(number) = file.begin(flow) else { return Ok(Tap(None)) };
        let seq = number.wrapping_mul(APART);
        let direction = |from| Direction { from, seq, ended: false };
        let mut recorder = Box::new(Recorder { file, flow, near: direction(near), far: direction(far) });
        recorder.greet(role);
        Ok(Tap(Some(recorder)))
    }

    /// What TCP took.
    pub(in super::super) fn sent(&mut self, octets: &[u8]) {
        self.carried(End::Near, octets);
    }

    /// What TCP took: the first so many octets of these pieces, which are seldom a packet each.
    pub(in super::super) fn sent_first(&mut self, count: usize, pieces: &VecDeque<Bytes>) {
        if self.0.is_some() {
            let mut octets = Vec::with_capacity(count);
            for piece in pieces {
                let room = count.saturating_sub(octets.len()).min(piece.len());
                octets.extend_from_slice(piece.get(..room).unwrap_or_default());
            }
            self.sent(&octets);
        }
    }

    /// What TCP gave.
    pub(in super::super) fn received(&mut self, octets: &[u8]) {
        self.carried(End::Far, octets);
    }

    fn carried(&mut self, by: End, octets: &[u8]) {
        if let Some(recorder) = &mut self.0 {
            let mut pieces = octets.chunks(MAX_PAYLOAD).peekable();
            while let Some(piece) = pieces.next() {
                let flag = if pieces.peek().is_none() { Flag::Push } else { Flag::None };
                recorder.put(by, flag, piece);
            }
        }
    }

    /// An end will send nothing more.
    pub(in super::super) fn ended(&mut self, by: End) {
        self.last(by, Flag::Fin);
    }

    /// An end broke off.
    pub(in super::super) fn broke(&mut self, by: End) {
        self.last(by, Flag::Reset);
    }

    fn last(&mut self, by: End, flag: Flag) {
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
        self.ended(End::Near);
        if let Some(recorder) = &self.0 {
            recorder.file.end(&recorder.flow);
        }
    }
}

impl Recorder {
    /// The three packets that begin a connection (RFC 9293 section 3.5).
    fn greet(&mut self, role: Role) {
        let (asks, answers) = match role {
            Role::Initiator => (End::Near, End::Far),
            Role::Responder => (End::Far, End::Near),
        };
        self.put(asks, Flag::Syn, &[]);
        self.put(answers, Flag::Syn, &[]);
        self.put(asks, Flag::None, &[]);
    }

    fn put(&mut self, by: End, flag: Flag, payload: &[u8]) {
        let (this, other) = match by {
            End::Near => (&mut self.near, &self.far),
            End::Far => (&mut self.far, &self.near),
        };
        // Nothing of the other end was seen before its SYN, which is the second packet.
        let first = flag == Flag::Syn && this.seq == other.seq;
        let ack = (!first).then_some(other.seq);
        let segment = Segment { from: this.from, to: other.from, seq: this.seq, ack, flag };
        self.file.append(&segment, payload);
        let counted = u32::from(matches!(flag, Flag::Syn | Flag::Fin));
        let len = u32::try_from(payload.len()).unwrap_or(0);
        this.seq = this.seq.wrapping_add(len).wrapping_add(counted);
    }

    fn direction(&mut self, by: End) -> &mut Direction {
        match by {
            End::Near => &mut self.near,
            End::Far => &mut self.far,
        }
    }
}
