//! Maps by hash. The hash is keyed anew in each process: names that somebody chose to have one hash have so
//! many by chance. Nothing that is emitted or said comes in a map's order.

use foldhash::fast::RandomState;

pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
pub(crate) type HashSet<K> = std::collections::HashSet<K, RandomState>;

/// A map with room for some keys.
pub(crate) fn with_room<K, V>(keys: usize) -> HashMap<K, V> {
    HashMap::with_capacity_and_hasher(keys, RandomState::default())
}
