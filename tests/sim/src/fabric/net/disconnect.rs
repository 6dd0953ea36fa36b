//! How a connection breaks in the middle of what is on its way.

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{CloseReason, Segment};

use super::{Event, Net};
use crate::fabric::Side;

impl Net {
    /// Breaks the connection at some octet of what is on its way to each end: what is before it arrives, what is behind it
    /// does not. One end hears of it now, and the other one later.
    pub(super) fn break_off(&mut self, first: Side, reason: CloseReason) {
        if self.broken {
            return;
        }
        self.broken = true;
        self.break_way(Side::Left);
        self.break_way(Side::Right);
        self.close(first, reason.clone());
        let (soon, all_is_there) = (self.after_a_while(), self.end(first).sent_until);
        let at = if self.rng.chance(1, 2) { soon } else { soon.max(all_is_there) };
        self.plan(at, Event::Lost { to: first.other(), reason });
    }

    fn break_way(&mut self, to: Side) {
        let on_the_way: Vec<_> = self
            .events
            .iter()
            .filter(|(_, event)| event.to() == to)
            .filter_map(|(key, event)| Some((*key, event.octets()?)))
            .collect();
        let all = on_the_way.iter().map(|(_, octets)| octets).sum::<u64>();
        let mut left = self.rng.below(all.saturating_add(1));
        for (key, octets) in on_the_way {
            let Some(rest) = left.checked_sub(octets) else {
                // The first of its octets is that of its header.
                let placed = std::mem::take(&mut left).saturating_sub(1);
                let rest = self.events.remove(&key).and_then(|event| self.cut_at(event, placed));
                self.events.extend(rest.map(|event| (key, event)));
                continue;
            };
            left = rest;
        }
    }

    /// What still happens of something of which so many octets arrive.
    fn cut_at(&mut self, event: Event, placed: u64) -> Option<Event> {
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

    /// A Write of four octets and a Send behind it, by an end whose provider reports an error at the Send: what was placed,
    /// and whether the Send arrived.
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
        let heard: Vec<_> = std::iter::from_fn(|| right.try_completion()).collect();
        assert!(matches!(&heard[..], [Completion::Closed { .. }]), "{heard:?}");
        let heard: Vec<_> = std::iter::from_fn(|| left.try_completion()).collect();
        let Some(Completion::Closed { returned, .. }) = heard.last() else { panic!("{heard:?}") };
        let [Memory::Sink(memory)] = &returned[..] else { panic!("{returned:?}") };
        (memory.to_vec(), heard.len() > 1)
    }

    #[test]
    fn a_break_lands_at_any_octet_and_what_is_behind_it_does_not_arrive() {
        let seen: std::collections::BTreeSet<_> = (0..200).map(disconnected).collect();
        for placed in [&b"\0\0\0\0"[..], b"d\0\0\0", b"da\0\0", b"dat\0", b"data"] {
            assert!(seen.contains(&(placed.to_vec(), false)), "{placed:?}: {seen:?}");
        }
        assert!(
            seen.contains(&(b"data".to_vec(), true)),
            "a Send of which its sender has an error: {seen:?}"
        );
        assert_eq!(seen.len(), 6, "nothing else: {seen:?}");
    }
}
