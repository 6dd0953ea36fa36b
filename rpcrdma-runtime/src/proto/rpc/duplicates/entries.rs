use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::CallIdentity;

/// A table of calls, each with a value. An entry has a number, which is reused once the entry is removed.
#[derive(Debug)]
pub(super) struct Entries<T> {
    slots: Vec<Option<(CallIdentity, T)>>,
    unused: Vec<u32>,
    /// The numbers of the entries, by the checksum of their calls.
    by_sum: BTreeSet<(u64, u32)>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries { slots: Vec::new(), unused: Vec::new(), by_sum: BTreeSet::new() }
    }
}

impl<T> Entries<T> {
    pub(super) fn len(&self) -> usize {
        self.by_sum.len()
    }

    pub(super) fn find(&self, call: &CallIdentity) -> Option<u32> {
        let same_sum = self.by_sum.range((call.sum(), 0)..=(call.sum(), u32::MAX));
        same_sum.map(|(_, number)| *number).find(|number| self.get(*number).is_some_and(|(of, _)| of == call))
    }

    pub(super) fn get(&self, number: u32) -> Option<&(CallIdentity, T)> {
        self.slots.get(usize::try_from(number).ok()?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut (CallIdentity, T)> {
        self.slots.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }

    /// Adds an entry for a call that is not in the table. Returns the number of the entry.
    pub(super) fn insert(&mut self, call: CallIdentity, value: T) -> u32 {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        self.by_sum.insert((call.sum(), number));
        if let Some(slot) = usize::try_from(number).ok().and_then(|number| self.slots.get_mut(number)) {
            *slot = Some((call, value));
        }
        number
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<(CallIdentity, T)> {
        let removed = self.slots.get_mut(usize::try_from(number).ok()?)?.take()?;
        self.by_sum.remove(&(removed.0.sum(), number));
        self.unused.push(number);
        Some(removed)
    }
}
