//! Randomly seeded hash maps, which resist names that are crafted to collide. No output depends on the order
//! of a map.

use foldhash::fast::RandomState;

pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
pub(crate) type HashSet<K> = std::collections::HashSet<K, RandomState>;

pub(crate) fn with_room<K, V>(keys: usize) -> HashMap<K, V> {
    HashMap::with_capacity_and_hasher(keys, RandomState::default())
}
