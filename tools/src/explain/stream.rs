//! Reassembles one direction of a TCP connection: in order, each octet once, with a note for missing ones.

use std::collections::BTreeMap;

use super::segments::Segment;

/// The limit on stored octets that arrived out of order.
const HELD: usize = 16 << 20;

/// The output of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The next octets, captured at this time.
    Octets {
        /// The time, in nanoseconds since 1970.
        time: u64,
        /// The octets.
        octets: &'a [u8],
    },
    /// The number of octets missing in the capture. The next octets begin a segment of TCP.
    Lost {
        /// The time of its detection.
        time: u64,
        /// The number.
        octets: u64,
    },
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The next sequence number, and the number of octets before it.
    due: Option<(u32, u64)>,
    /// Segments that arrived early, by position.
    early: BTreeMap<u64, (u64, Vec<u8>)>,
    held: usize,
    /// Retransmitted octets.
    pub(super) again: u64,
    /// Missing octets.
    pub(super) lost: u64,
    /// Whether the capture has its start.
    pub(super) from_start: bool,
}

impl Direction {
    /// Adds a segment of this direction, and passes on the octets that are now in order.
    pub(super) fn take(&mut self, time: u64, segment: &Segment<'_>, mut give: impl FnMut(Piece<'_>)) {
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
            self.again = self.again.saturating_add(len64(known));
            payload = payload.get(known..).unwrap_or_default();
        }
        match u64::from(u32::try_from(ahead).unwrap_or(0)) {
            _ if payload.is_empty() => {}
            0 => {
                self.deliver(time, payload, &mut give);
                self.go_on(&mut give);
            }
            ahead => self.keep(at.saturating_add(ahead), time, payload),
        }
        while self.held > HELD {
            self.skip(time, &mut give);
        }
    }

    /// The peer has received everything before this number, so missing octets were not captured.
    pub(super) fn acknowledged(&mut self, time: u64, ack: u32, mut give: impl FnMut(Piece<'_>)) {
        while let (Some((due, at)), Some((first, _))) = (self.due, self.early.first_key_value()) {
            let ahead = u64::from(u32::try_from(ack.wrapping_sub(due).cast_signed()).unwrap_or(0));
            if at.saturating_add(ahead) < *first {
                return;
            }
            self.skip(time, &mut give);
        }
    }

    /// Passes on the stored octets: no more segments follow.
    pub(super) fn finish(&mut self, time: u64, mut give: impl FnMut(Piece<'_>)) {
        while !self.early.is_empty() {
            self.skip(time, &mut give);
        }
    }

    fn keep(&mut self, at: u64, time: u64, payload: &[u8]) {
        let longer = self.early.get(&at).is_none_or(|(_, there)| there.len() < payload.len());
        if longer {
            let before = self.early.insert(at, (time, payload.to_vec())).map_or(0, |(_, there)| there.len());
            self.again = self.again.saturating_add(len64(before));
            self.held = self.held.saturating_add(payload.len()).saturating_sub(before);
        } else {
            self.again = self.again.saturating_add(len64(payload.len()));
        }
    }

    fn deliver(&mut self, time: u64, octets: &[u8], give: &mut impl FnMut(Piece<'_>)) {
        if let Some((due, at)) = &mut self.due {
            // Octets that are counted modulo 2^32 on the wire.
            let len = len64(octets.len());
            *due = due.wrapping_add(u32::try_from(len & u64::from(u32::MAX)).unwrap_or(0));
            *at = at.saturating_add(len);
        }
        give(Piece::Octets { time, octets });
    }

    /// Passes on early segments that are now in order.
    fn go_on(&mut self, give: &mut impl FnMut(Piece<'_>)) {
        while let Some((_, at)) = self.due {
            let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= at) else { return };
            let (place, (time, octets)) = entry.remove_entry();
            self.held = self.held.saturating_sub(octets.len());
            let known = usize::try_from(at.saturating_sub(place)).unwrap_or(usize::MAX).min(octets.len());
            self.again = self.again.saturating_add(len64(known));
            let rest = octets.get(known..).unwrap_or_default();
            if !rest.is_empty() {
                self.deliver(time, rest, give);
            }
        }
    }

    /// Skips the missing octets before the first stored segment.
    fn skip(&mut self, time: u64, give: &mut impl FnMut(Piece<'_>)) {
        let (Some((due, at)), Some((first, _))) = (&mut self.due, self.early.first_key_value()) else {
            self.early.clear();
            self.held = 0;
            return;
        };
        let octets = first.saturating_sub(*at);
        *due = due.wrapping_add(u32::try_from(octets & u64::from(u32::MAX)).unwrap_or(0));
        *at = *first;
        self.lost = self.lost.saturating_add(octets);
        give(Piece::Lost { time, octets });
        self.go_on(give);
    }
}

fn len64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    /// The reassembled segments, with lost octets as dots.
    fn read(base: u32, segments: &[(u32, &[u8])]) -> (String, Direction) {
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let (mut direction, mut text) = (Direction::default(), String::new());
        let mut give = |piece: Piece<'_>| match piece {
            Piece::Octets { octets, .. } => text += std::str::from_utf8(octets).unwrap(),
            Piece::Lost { octets, .. } => text += &".".repeat(usize::try_from(octets).unwrap()),
        };
        for (at, payload) in segments {
            let seq = base.wrapping_add(*at);
            let segment =
                Segment { from, to, seq, ack: None, syn: *at == 0, fin: false, rst: false, payload };
            direction.take(0, &segment, &mut give);
        }
        direction.finish(0, &mut give);
        (text, direction)
    }

    #[test]
    fn reordered_and_repeated_segments_yield_each_octet_once() {
        // Sequence numbers that wrap as well.
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
    fn a_missing_name_is_reported_once() {
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
        let mut heard = 0;
        direction.acknowledged(0, 8, |_| heard += 1);
        assert_eq!((heard, direction.lost), (2, 4));
    }
}
