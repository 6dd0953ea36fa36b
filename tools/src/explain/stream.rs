//! Reassembles one direction of a TCP connection. Each byte appears once, in order, and missing bytes are
//! reported.

use std::collections::BTreeMap;

use super::segments::Segment;

/// The maximum number of stored bytes that arrived out of order.
const HELD: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Octets {
        /// The time, in nanoseconds since 1970.
        time: u64,
        octets: &'a [u8],
    },
    /// Missing bytes. The next `Octets` begin with the first byte of a TCP segment.
    Lost {
        /// The time at which the loss was detected.
        time: u64,
        /// The number of missing bytes.
        octets: u64,
    },
}

#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The next expected sequence number, and the number of bytes of this direction before it.
    due: Option<(u32, u64)>,
    /// The segments that arrived early, by position.
    early: BTreeMap<u64, (u64, Vec<u8>)>,
    held: usize,
    /// The number of retransmitted bytes.
    pub(super) retransmitted: u64,
    /// The number of missing bytes.
    pub(super) lost: u64,
    /// True if the capture contains the start of the direction.
    pub(super) from_start: bool,
}

impl Direction {
    /// Adds a segment, and passes on the bytes that are then in order.
    pub(super) fn take(&mut self, time: u64, segment: &Segment<'_>, mut emit: impl FnMut(Piece<'_>)) {
        let (mut seq, mut payload) = (segment.seq, segment.payload);
        if segment.syn {
            seq = seq.wrapping_add(1);
            if self.due.is_none() {
                self.due = Some((seq, 0));
                self.from_start = true;
            }
        }
        if payload.is_empty() {
            return;
        }
        let (due, at) = *self.due.get_or_insert((seq, 0));
        let ahead = seq.wrapping_sub(due).cast_signed();
        if ahead < 0 {
            let known = usize::try_from(ahead.unsigned_abs()).unwrap_or(usize::MAX).min(payload.len());
            self.retransmitted = self.retransmitted.saturating_add(len64(known));
            payload = payload.get(known..).unwrap_or_default();
        }
        match u64::from(u32::try_from(ahead).unwrap_or(0)) {
            _ if payload.is_empty() => {}
            0 => {
                self.deliver(time, payload, &mut emit);
                self.emit_ready(&mut emit);
            }
            ahead => self.keep(at.saturating_add(ahead), time, payload),
        }
        while self.held > HELD {
            self.skip(time, &mut emit);
        }
    }

    /// Handles an acknowledgment: the peer has received all bytes before `ack`, so missing bytes were not
    /// captured.
    pub(super) fn acknowledged(&mut self, time: u64, ack: u32, mut emit: impl FnMut(Piece<'_>)) {
        while let (Some((due, at)), Some((first, _))) = (self.due, self.early.first_key_value()) {
            let ahead = u64::from(u32::try_from(ack.wrapping_sub(due).cast_signed()).unwrap_or(0));
            if at.saturating_add(ahead) < *first {
                return;
            }
            self.skip(time, &mut emit);
        }
    }

    /// At the end of the capture, reports missing bytes and passes on the stored bytes.
    pub(super) fn finish(&mut self, time: u64, mut emit: impl FnMut(Piece<'_>)) {
        while !self.early.is_empty() {
            self.skip(time, &mut emit);
        }
    }

    fn keep(&mut self, at: u64, time: u64, payload: &[u8]) {
        let longer = self.early.get(&at).is_none_or(|(_, there)| there.len() < payload.len());
        if longer {
            let before = self.early.insert(at, (time, payload.to_vec())).map_or(0, |(_, there)| there.len());
            self.retransmitted = self.retransmitted.saturating_add(len64(before));
            self.held = self.held.saturating_add(payload.len()).saturating_sub(before);
        } else {
            self.retransmitted = self.retransmitted.saturating_add(len64(payload.len()));
        }
    }

    fn deliver(&mut self, time: u64, octets: &[u8], emit: &mut impl FnMut(Piece<'_>)) {
        if let Some((due, at)) = &mut self.due {
            // TCP sequence numbers count bytes modulo 2^32.
            let len = len64(octets.len());
            *due = due.wrapping_add(u32::try_from(len & u64::from(u32::MAX)).unwrap_or(0));
            *at = at.saturating_add(len);
        }
        emit(Piece::Octets { time, octets });
    }

    fn emit_ready(&mut self, emit: &mut impl FnMut(Piece<'_>)) {
        while let Some((_, at)) = self.due {
            let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= at) else { return };
            let (place, (time, octets)) = entry.remove_entry();
            self.held = self.held.saturating_sub(octets.len());
            let known = usize::try_from(at.saturating_sub(place)).unwrap_or(usize::MAX).min(octets.len());
            self.retransmitted = self.retransmitted.saturating_add(len64(known));
            let rest = octets.get(known..).unwrap_or_default();
            if !rest.is_empty() {
                self.deliver(time, rest, emit);
            }
        }
    }

    /// Reports the missing bytes before the first stored segment, and passes on the bytes that are then in
    /// order.
    fn skip(&mut self, time: u64, emit: &mut impl FnMut(Piece<'_>)) {
        let (Some((due, at)), Some((first, _))) = (&mut self.due, self.early.first_key_value()) else {
            self.early.clear();
            self.held = 0;
            return;
        };
        let octets = first.saturating_sub(*at);
        *due = due.wrapping_add(u32::try_from(octets & u64::from(u32::MAX)).unwrap_or(0));
        *at = *first;
        self.lost = self.lost.saturating_add(octets);
        emit(Piece::Lost { time, octets });
        self.emit_ready(emit);
    }
}

fn len64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    /// Returns the reassembled data, with dots for missing bytes.
    fn read(base: u32, segments: &[(u32, &[u8])]) -> (String, Direction) {
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let (mut direction, mut text) = (Direction::default(), String::new());
        let mut emit = |piece: Piece<'_>| match piece {
            Piece::Octets { octets, .. } => text += std::str::from_utf8(octets).unwrap(),
            Piece::Lost { octets, .. } => text += &".".repeat(usize::try_from(octets).unwrap()),
        };
        for (at, payload) in segments {
            let seq = base.wrapping_add(*at);
            let segment =
                Segment { from, to, seq, ack: None, syn: *at == 0, fin: false, rst: false, payload };
            direction.take(0, &segment, &mut emit);
        }
        direction.finish(0, &mut emit);
        (text, direction)
    }

    #[test]
    fn reordered_and_repeated_segments_yield_each_octet_once() {
        // Sequence numbers can wrap.
        for base in [0, 7, u32::MAX - 4] {
            let syn: (u32, &[u8]) = (0, b"");
            let read = |rest: &[(u32, &[u8])]| read(base, &[&[syn], rest].concat()).0;
            assert_eq!(read(&[(1, b"abc"), (4, b"def")]), "abcdef");
            assert_eq!(read(&[(4, b"def"), (1, b"abc")]), "abcdef");
            assert_eq!(read(&[(4, b"def"), (7, b"gh"), (1, b"ab"), (1, b"abc")]), "abcdefgh");
            assert_eq!(read(&[(1, b"abc"), (1, b"abc"), (2, b"bcde"), (6, b"f")]), "abcdef");
            assert_eq!(read(&[(3, b"cdef"), (2, b"bc"), (1, b"a")]), "abcdef");
        }
    }

    #[test]
    fn missing_bytes_are_reported_once() {
        let (text, direction) = read(9, &[(0, b""), (1, b"ab"), (5, b"ef"), (9, b"ij"), (7, b"gh")]);
        assert_eq!((text.as_str(), direction.lost), ("ab..efghij", 2));
    }

    #[test]
    fn segments_missing_from_a_capture_do_not_stall() {
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let mut direction = Direction::default();
        let mut segment =
            Segment { from, to, seq: 0, ack: None, syn: true, fin: false, rst: false, payload: b"" };
        direction.take(0, &segment, |_| {});
        segment = Segment { seq: 5, syn: false, payload: b"efg", ..segment };
        direction.take(0, &segment, |_| panic!("too early"));
        direction.acknowledged(0, 1, |_| panic!("not yet"));
        let mut pieces = 0;
        direction.acknowledged(0, 8, |_| pieces += 1);
        assert_eq!((pieces, direction.lost), (2, 4));
    }
}
