//! What types hold of eligible items where they hold each other, seen so many levels down: as the runtime's `xdr/held.rs`
//! and `xdr/met.rs` have it.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::layout::Size;

/// How many types are told apart. What is beyond is as good as unseen.
const ROOM: usize = 32;

/// Half the way down.
const HALF: usize = 6;

/// All the way down.
pub(super) const FULL: usize = 2 * HALF + 1;

/// What a type holds, seen from somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The largest item.
    item: Size,
    /// How many.
    items: Size,
    /// The numbers of the types that are behind boxes and arrays.
    types: Vec<u64>,
    /// How many places were passed that hold items, of all of a union's arms.
    places: u64,
    /// Whether something was too far down.
    cut: bool,
    /// Whether there were more types than there is room for.
    lost: bool,
}

impl Seen {
    /// An item.
    pub(super) fn item(item: Size) -> Self {
        Seen { item, items: Size(Some(1)), places: 1, ..Seen::default() }
    }

    /// Something that is too far down.
    pub(super) fn unseen() -> Self {
        Seen { cut: true, ..Seen::default() }
    }

    /// Behind a box or an array, and of this number; 0 is none.
    pub(super) fn met(mut self, number: u64) -> Self {
        if number == 0 || self.types.contains(&number) {
            return self;
        }
        if self.types.len() < ROOM {
            self.types.push(number)
        } else {
            self.lost = true
        }
        self
    }

    /// One behind the other.
    pub(super) fn and(self, other: Seen) -> Self {
        let items = self.items.plus(other.items);
        self.beside(other, items)
    }

    /// Either.
    pub(super) fn or(self, other: Seen) -> Self {
        let items = self.items.max(other.items);
        self.beside(other, items)
    }

    fn beside(self, other: Seen, items: Size) -> Self {
        let (item, places) = (self.item.max(other.item), self.places.saturating_add(other.places));
        let (cut, lost) = (self.cut || other.cut, self.lost || other.lost);
        let both = other.types.into_iter().fold(self, Seen::met);
        Seen { item, items, places, cut, lost: lost || both.lost, types: both.types }
    }

    pub(super) fn times(self, count: u64) -> Self {
        Seen { items: self.items.times(count), ..self }
    }

    /// Any number of times.
    pub(super) fn repeated(self) -> Self {
        Seen { items: self.items.repeated(), ..self }
    }
}

/// The largest item and the number of items of what is seen behind a box from so many levels down: unbounded if there may be
/// any number, or nobody knows.
pub(super) fn settled(behind: impl Fn(usize) -> Seen) -> (Size, Size) {
    let full = behind(FULL);
    if !full.cut {
        return (full.item, full.items);
    }
    let (near, half) = (behind(HALF - 1), behind(HALF));
    if half.lost || half.types.len() != near.types.len() {
        return (Size::UNBOUNDED, Size::UNBOUNDED);
    }
    let is_all = full.places == half.places && full.places < u64::MAX;
    (full.item, if is_all { full.items } else { Size::UNBOUNDED })
}

/// The number of a type of the module.
pub(super) fn number(index: usize) -> u64 {
    mixed(5, index as u64)
}

/// The number of a type made of one of this number; never 0, which stands for no type.
pub(super) fn mixed(number: u64, of: u64) -> u64 {
    FixedState::default().hash_one((number, of)) | 1
}
