use alloc::vec::Vec;
use core::mem;

/// A table of calls, keyed by a number that the table's owner chooses: an XID or a counter value. The low
/// bits of the number select the slot, so consecutive numbers have adjacent slots.
///
/// A peer must not choose the numbers, because colliding numbers make every access slow.
#[derive(Clone, Debug)]
pub(crate) struct Table<T> {
    /// The length is a power of two or zero. An entry is in the slot of its number, or in a later slot with
    /// no empty slot between the two.
    slots: Vec<Option<(u32, T)>>,
    len: usize,
}

const SMALLEST: usize = 4;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { slots: Vec::new(), len: 0 }
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let at = self.find(number)?;
        self.slots.get(at)?.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let at = self.find(number)?;
        self.slots.get_mut(at)?.as_mut().map(|(_, value)| value)
    }

    /// Adds an entry, or returns the value if the number is already used.
    pub(crate) fn insert(&mut self, number: u32, value: T) -> Result<(), T> {
        if self.contains(number) {
            return Err(value);
        }
        if self.len.saturating_mul(2) >= self.slots.len() {
            self.grow();
        }
        self.place(number, value);
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let mut gap = self.find(number)?;
        let removed = self.slots.get_mut(gap)?.take();
        self.len = self.len.saturating_sub(1);
        // Up to the next empty slot, moves each entry into the gap, unless the gap precedes the slot of the
        // entry's number.
        let mut at = gap;
        loop {
            at = self.after(at);
            let Some(Some((moved, _))) = self.slots.get(at) else { break };
            let home = self.home(*moved);
            if self.distance(home, gap) <= self.distance(home, at) {
                self.slots.swap(gap, at);
                gap = at;
            }
        }
        removed.map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().flatten().map(|(number, value)| (*number, value))
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, T)> {
        self.len = 0;
        mem::take(&mut self.slots).into_iter().flatten()
    }

    fn grow(&mut self) {
        let size = self.slots.len().saturating_mul(2).max(SMALLEST);
        let mut slots = Vec::new();
        slots.resize_with(size, || None);
        for (number, value) in mem::replace(&mut self.slots, slots).into_iter().flatten() {
            self.place(number, value);
        }
    }

    /// Stores an entry in the slot of its number, or in the next free slot. A free slot must exist.
    fn place(&mut self, number: u32, value: T) {
        let mut at = self.home(number);
        while matches!(self.slots.get(at), Some(Some(_))) {
            at = self.after(at);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some((number, value));
        }
    }

    fn find(&self, number: u32) -> Option<usize> {
        let mut at = self.home(number);
        loop {
            match self.slots.get(at)? {
                Some((found, _)) if *found == number => return Some(at),
                Some(_) => at = self.after(at),
                None => return None,
            }
        }
    }

    fn home(&self, number: u32) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX) & self.slots.len().wrapping_sub(1)
    }

    fn after(&self, at: usize) -> usize {
        at.wrapping_add(1) & self.slots.len().wrapping_sub(1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::proto::random::Rng;

    #[test]
    fn entries_are_found_until_they_are_removed() {
        // Many numbers select the same slot, and entries wrap around the end of the table.
        let mut rng = Rng::new(5);
        let (mut table, mut model) = (Table::default(), BTreeMap::new());
        for turn in 0..100_000u64 {
            let number =
                u32::try_from(rng.next_u64() % 40 * 16 + rng.next_u64() % 4).unwrap().wrapping_sub(66);
            if rng.next_u64().is_multiple_of(2) {
                let inserted = table.insert(number, turn).is_ok();
                assert_eq!(inserted, !model.contains_key(&number));
                model.entry(number).or_insert(turn);
            } else {
                assert_eq!(table.remove(number), model.remove(&number));
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.get(number), model.get(&number));
        }
        let mut left: Vec<_> = table.iter().map(|(number, value)| (number, *value)).collect();
        left.sort_unstable();
        assert_eq!(left, model.into_iter().collect::<Vec<_>>());
        assert!(table.drain().count() > 0 && table.len() == 0 && table.get(0).is_none());
    }

    #[test]
    fn entries_without_a_collision_are_in_their_slots() {
        let mut table = Table::default();
        for number in (0..6).rev() {
            assert!(table.insert(number, ()).is_ok());
        }
        for number in 0..6 {
            assert_eq!(table.find(number), usize::try_from(number).ok());
        }
    }
}
