//! A bounded table of client state. When it is full, a new entry replaces the least recently used entry.

use alloc::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The server's handle of a context.
pub(super) type Handle = [u8; 16];

pub(super) struct Table<T> {
    capacity: usize,
    entries: HashMap<Handle, Entry<T>>,
    used: BTreeMap<u64, Handle>,
    now: u64,
}

struct Entry<T> {
    used: u64,
    value: T,
}

/// Creates unpredictable handles.
#[derive(Default)]
pub(super) struct Handles {
    random: RandomState,
    count: u64,
}

impl Handles {
    pub(super) fn next(&mut self) -> Handle {
        self.count = self.count.wrapping_add(1);
        let half = |salt: u64| {
            let mut hasher = self.random.build_hasher();
            hasher.write_u64(self.count);
            hasher.write_u64(salt);
            hasher.finish()
        };
        (u128::from(half(0)) << 64 | u128::from(half(1))).to_be_bytes()
    }
}

impl<T> Table<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Table { capacity: capacity.max(1), entries: HashMap::new(), used: BTreeMap::new(), now: 0 }
    }

    pub(super) fn insert(&mut self, handle: Handle, value: T) {
        self.remove(&handle);
        if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.now = self.now.wrapping_add(1);
        self.used.insert(self.now, handle);
        self.entries.insert(handle, Entry { used: self.now, value });
    }

    pub(super) fn remove(&mut self, handle: &[u8]) -> Option<T> {
        let entry = self.entries.remove(handle)?;
        self.used.remove(&entry.used);
        Some(entry.value)
    }

    /// Returns a value and marks it as used, if the handle is known.
    pub(super) fn get(&mut self, handle: &[u8]) -> Option<&mut T> {
        let (own, entry) = self.entries.get_key_value(handle).map(|(own, entry)| (*own, entry.used))?;
        self.used.remove(&entry);
        self.now = self.now.wrapping_add(1);
        self.used.insert(self.now, own);
        let entry = self.entries.get_mut(handle)?;
        entry.used = self.now;
        Some(&mut entry.value)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let (mut table, mut handles) = (Table::new(2), Handles::default());
        let [one, two, three] = [handles.next(), handles.next(), handles.next()];
        assert!(one != two && two != three && one != three);
        table.insert(one, 1);
        table.insert(two, 2);
        assert_eq!(table.get(&one), Some(&mut 1));
        table.insert(three, 3);
        assert_eq!(table.get(&two), None);
        assert_eq!(table.len(), 2);
        assert_eq!((table.remove(&one), table.remove(&one), table.remove(&three)), (Some(1), None, Some(3)));
        assert_eq!(table.get(b"another length"), None);
        assert_eq!(table.len(), 0);
    }
}
