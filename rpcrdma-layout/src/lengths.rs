use crate::Size;

/// The range of lengths of a type's encodings, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The length of the shortest encoding.
    pub min: u64,
    /// The length of the longest encoding.
    pub max: Size,
    /// The maximum length of an encoding whose DDP-eligible items are removed. The count of an item stays in
    /// the encoding (RFC 8166 section 3.4.4.1).
    pub max_reduced: Size,
}

/// The length of a count, or of the presence flag of optional data.
const WORD: Lengths = Lengths::fixed(4);

impl Lengths {
    /// No bytes: `void`.
    pub const ZERO: Lengths = Lengths::fixed(0);

    /// Any length. A box has this range, because a type may contain itself through a box.
    pub const UNKNOWN: Lengths = Lengths::between(0, Size::Unbounded);

    /// Returns the lengths of encodings that always have `len` bytes.
    #[must_use]
    pub const fn fixed(len: u64) -> Self {
        Lengths::between(len, Size::Bounded(len))
    }

    /// Returns the lengths of encodings that have `min` to `max` bytes and contain no DDP-eligible items.
    #[must_use]
    pub const fn between(min: u64, max: Size) -> Self {
        Lengths { min, max, max_reduced: max }
    }

    /// Returns the lengths of fixed-length opaque data with its padding (RFC 4506 section 4.9).
    #[must_use]
    pub const fn of_fixed_opaque(len: u64) -> Self {
        let padded = Size::Bounded(len).with_padding();
        Lengths::between(if let Size::Bounded(padded) = padded { padded } else { len }, padded)
    }

    /// Returns the lengths of variable-length opaque data or a string of at most `max` bytes, with count and
    /// padding.
    #[must_use]
    pub const fn of_data(max: Size) -> Self {
        WORD.and(Lengths::between(0, max.with_padding()))
    }

    /// Returns the lengths of a DDP-eligible item of at most `largest` bytes. Only the item's count stays in
    /// a reduced stream.
    #[must_use]
    pub const fn of_item(largest: Size) -> Self {
        Lengths { max_reduced: WORD.max, ..Lengths::of_data(largest) }
    }

    /// Returns the lengths of `self` followed by `other`, as for the fields of a struct.
    #[must_use]
    pub const fn and(self, other: Lengths) -> Self {
        Lengths {
            min: self.min.saturating_add(other.min),
            max: self.max.plus(other.max),
            max_reduced: self.max_reduced.plus(other.max_reduced),
        }
    }

    /// Returns the lengths of either `self` or `other`, as for the arms of a union.
    #[must_use]
    pub const fn or(self, other: Lengths) -> Self {
        Lengths {
            min: if self.min < other.min { self.min } else { other.min },
            max: self.max.max(other.max),
            max_reduced: self.max_reduced.max(other.max_reduced),
        }
    }

    /// Returns the lengths of `count` values, as for a fixed-length array (RFC 4506 section 4.12).
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Lengths {
            min: self.min.saturating_mul(count),
            max: self.max.times(count),
            max_reduced: self.max_reduced.times(count),
        }
    }

    /// Returns the lengths of a counted array of at most `max` elements (RFC 4506 section 4.13).
    #[must_use]
    pub const fn array(self, max: u32) -> Self {
        let count = Size::of_bound(max);
        WORD.and(Lengths {
            min: 0,
            max: self.max.repeated(count),
            max_reduced: self.max_reduced.repeated(count),
        })
    }

    /// Returns the lengths of optional data (RFC 4506 section 4.19).
    #[must_use]
    pub const fn optional(self) -> Self {
        WORD.and(Lengths { min: 0, ..self })
    }

    /// Returns the length if all encodings have the same length, otherwise `None`.
    #[must_use]
    pub const fn only(self) -> Option<u64> {
        match self.max {
            Size::Bounded(max) if max == self.min => Some(max),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: Lengths = Lengths::of_item(Size::Bounded(5));

    #[test]
    fn an_item_leaves_its_count_in_the_stream() {
        assert_eq!(ITEM, Lengths { min: 4, max: Size::Bounded(12), max_reduced: Size::Bounded(4) });
        let unbounded = Lengths::of_item(Size::Unbounded);
        assert_eq!((unbounded.max, unbounded.max_reduced), (Size::Unbounded, Size::Bounded(4)));
    }

    #[test]
    fn counted_arrays_and_optional_data_may_be_a_word() {
        assert_eq!(ITEM.array(2), Lengths { min: 4, max: Size::Bounded(28), max_reduced: Size::Bounded(12) });
        assert_eq!(
            ITEM.optional(),
            Lengths { min: 4, max: Size::Bounded(16), max_reduced: Size::Bounded(8) }
        );
        assert_eq!(Lengths::fixed(4).array(u32::MAX).max, Size::Unbounded);
        assert_eq!(Lengths::UNKNOWN.array(0), Lengths::fixed(4));
        assert_eq!(Lengths::ZERO.array(u32::MAX), Lengths::fixed(4));
    }

    #[test]
    fn a_union_is_as_short_as_its_shortest_arm_and_as_long_as_its_longest() {
        let arms = Lengths::fixed(8).or(ITEM);
        assert_eq!(arms, Lengths { min: 4, max: Size::Bounded(12), max_reduced: Size::Bounded(8) });
        assert_eq!((arms.only(), arms.times(0).only()), (None, Some(0)));
    }

    #[test]
    fn fixed_opaque_data_is_padded() {
        assert_eq!(Lengths::of_fixed_opaque(5), Lengths::fixed(8));
        assert_eq!(Lengths::of_data(Size::of_bound(5)), Lengths::between(4, Size::Bounded(12)));
    }
}
