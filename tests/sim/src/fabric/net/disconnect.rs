//! Breaks a connection at a random octet of its outstanding data.

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{CloseReason, Segment};

use super::{Event, Net};
use crate::fabric::Side;

impl Net {
    /// Breaks the connection at a random octet of the outstanding data in each direction. `first` learns of
    /// the break at once, and the other peer later.
    pub(super) fn disconnect(&mut self, first: Side, reason: CloseReason) {
        if self.broken {
            return;
        }
        self.broken = true;
        self.truncate_direction(Side::Left);
        self.truncate_direction(Side::Right);
        self.close(first, reason.clone());
        let (soon, all_arrived) = (self.random_time(), self.end(first).sent_until);
        let at = if self.rng.chance(1, 2) { soon } else { soon.max(all_arrived) };
        self.schedule(at, Event::Lost { to: first.other(), reason });
    }

    fn truncate_direction(&mut self, to: Side) {
        let in_flight: Vec<_> = self
            .events
            .iter()
            .filter(|(_, event)| event.to() == to)
            .filter_map(|(key, event)| Some((*key, event.octets()?)))
            .collect();
        let all = in_flight.iter().map(|(_, octets)| octets).sum::<u64>();
        let mut remaining = self.rng.below(all.saturating_add(1));
        for (key, octets) in in_flight {
            let Some(rest) = remaining.checked_sub(octets) else {
                // The first octet stands for the header.
                let placed = std::mem::take(&mut remaining).saturating_sub(1);
                let rest = self.events.remove(&key).and_then(|event| self.truncate(event, placed));
                self.events.extend(rest.map(|event| (key, event)));
                continue;
            };
            remaining = rest;
        }
    }

    /// Counts the loss. Returns an RDMA Write with only its first `placed` data octets. Returns `None` if
    /// `placed` is 0 or if the event is not an RDMA Write, because the event is then lost completely.
    fn truncate(&mut self, event: Event, placed: u64) -> Option<Event> {
        match event {
            Event::Write { to, sink, data } if placed > 0 => {
                self.lost_work.writes = self.lost_work.writes.saturating_add(1);
                let length = u32::try_from(placed).unwrap_or(u32::MAX).min(sink.length);
                let data: Bytes =
                    data.into_iter().take(usize::try_from(length).unwrap_or(usize::MAX)).collect();
                return Some(Event::Write { to, sink: Segment { length, ..sink }, data });
            }
            Event::Send { .. } => self.lost_work.lost_sends = self.lost_work.lost_sends.saturating_add(1),
            Event::Read { .. } | Event::ReadDone { .. } => {
                self.lost_work.reads = self.lost_work.reads.saturating_add(1);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use rpcrdma_runtime::proto::work::{Action, Completion, Memory, Token};
    use rpcrdma_runtime::provider::Connection;

    use super::*;
    use crate::fabric::{Fabric, FabricConfig, Faults};

    /// Submits an RDMA Write of four octets and a Send that fails.
    ///
    /// Returns the sink memory after the break, and whether the Send arrived.
    fn disconnected(seed: u64) -> (Vec<u8>, bool) {
        let faults = Faults { send: 10_000, ..Faults::default() };
        let (fabric, mut left, mut right) =
            Fabric::pair(FabricConfig { seed, faults, ..FabricConfig::default() });
        left.submit(Action::PostReceives { count: 1 });
        left.submit(Action::Register { token: Token(1), memory: Memory::Sink(BytesMut::zeroed(4)) });
        assert!(fabric.advance());
        let Some(Completion::Registered { segment: sink, .. }) = left.try_completion() else { panic!() };
        right.submit(Action::Write { token: Token(2), sink, data: Bytes::from_static(b"data") });
        right.submit(Action::Send { token: Token(3), message: vec![Bytes::new()], invalidate: None });
        while fabric.advance() {}
        let completions: Vec<_> = std::iter::from_fn(|| right.try_completion()).collect();
        assert!(matches!(&completions[..], [Completion::Closed { .. }]), "{completions:?}");
        let completions: Vec<_> = std::iter::from_fn(|| left.try_completion()).collect();
        let Some(Completion::Closed { returned, .. }) = completions.last() else { panic!("{completions:?}") };
        let [Memory::Sink(memory)] = &returned[..] else { panic!("{returned:?}") };
        (memory.to_vec(), completions.len() > 1)
    }

    #[test]
    fn a_break_can_occur_at_any_octet_and_loses_the_data_after_it() {
        let seen: std::collections::BTreeSet<_> = (0..200).map(disconnected).collect();
        for placed in [&b"\0\0\0\0"[..], b"d\0\0\0", b"da\0\0", b"dat\0", b"data"] {
            assert!(seen.contains(&(placed.to_vec(), false)), "{placed:?}: {seen:?}");
        }
        assert!(
            seen.contains(&(b"data".to_vec(), true)),
            "a Send that failed for its sender should arrive for some seed: {seen:?}"
        );
        assert_eq!(seen.len(), 6, "unexpected outcomes: {seen:?}");
    }
}
