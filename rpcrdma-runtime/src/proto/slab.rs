//! A table whose keys are indices and never refer to two values.

use alloc::vec::Vec;

/// Identifies a value by its index and by the number of earlier values at that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

/// Values by key.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len().saturating_sub(self.free.len())
    }

    pub(super) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop()
            && let Some(place) = self.places.get_mut(index as usize)
        {
            place.value = Some(value);
            return Key { index, generation: place.generation };
        }
        // Memory runs out before 2^32 values are stored.
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place { generation: 0, value: Some(value) });
        Key { index, generation: 0 }
    }

    fn place(&mut self, key: Key) -> Option<&mut Place<T>> {
        self.places.get_mut(key.index as usize).filter(|place| place.generation == key.generation)
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize).filter(|place| place.generation == key.generation);
        place?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.place(key)?.value.as_mut()
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.place(key)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Removes all values. Their keys never refer to later ones.
    pub(super) fn clear(&mut self) {
        self.free.clear();
        for (index, place) in (0..).zip(&mut self.places) {
            place.value = None;
            place.generation = place.generation.wrapping_add(1);
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_value() {
        let mut slab = Slab::new();
        let (one, two) = (slab.insert('1'), slab.insert('2'));
        assert_eq!((slab.remove(one), slab.remove(one), slab.len()), (Some('1'), None, 1));
        let three = slab.insert('3');
        assert_eq!((one.index, slab.get(one), slab.get(three)), (three.index, None, Some(&'3')));
        slab.clear();
        let four = slab.insert('4');
        assert_eq!([two, three, four].map(|key| slab.get_mut(key).copied()), [None, None, Some('4')]);
        assert_eq!(slab.len(), 1);
    }
}
