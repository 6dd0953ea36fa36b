use crate::Size;

/// The DDP-eligible items that one value of a type can contain.
///
/// If types contain each other in a cycle, their items are the least solution of a system of equations. The
/// equations combine items with [`Items::and`], [`Items::or`], [`Items::times`] and [`Items::array`]. The
/// types of a cycle contain each other, so all have the same count. To find this count, evaluate all
/// equations with [`Items::NONE`] for the types of the cycle, and then again with the largest resulting
/// count. A count that grows has no bound ([`Items::grown`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// The maximum number of items.
    pub count: Size,
    /// The maximum size of an item in bytes, without padding; zero if `count` is zero.
    pub largest: Size,
}

impl Items {
    /// No items.
    pub const NONE: Items = Items { count: Size::ZERO, largest: Size::ZERO };

    /// Returns one item of at most `largest` bytes.
    #[must_use]
    pub const fn one(largest: Size) -> Self {
        Items { count: Size::Bounded(1), largest }
    }

    /// Returns the items of `self` and of `other`, as for the fields of a struct.
    #[must_use]
    pub const fn and(self, other: Items) -> Self {
        Items { count: self.count.plus(other.count), largest: self.largest.max(other.largest) }
    }

    /// Returns the items of `self` or of `other`, as for the arms of a union.
    #[must_use]
    pub const fn or(self, other: Items) -> Self {
        Items { count: self.count.max(other.count), largest: self.largest.max(other.largest) }
    }

    /// Returns the items of `count` values, as for a fixed-length array.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        self.repeated(Size::Bounded(count))
    }

    /// Returns the items of a counted array of at most `max` values.
    #[must_use]
    pub const fn array(self, max: u32) -> Self {
        self.repeated(Size::of_bound(max))
    }

    const fn repeated(self, count: Size) -> Self {
        match self.count.repeated(count) {
            Size::ZERO => Items::NONE,
            count => Items { count, ..self },
        }
    }

    /// Returns `next`, the result of the second evaluation of the equations; `self` is the result of the
    /// first. If `next` has a larger count than `self`, the returned count has no bound.
    #[must_use]
    pub const fn grown(self, next: Items) -> Self {
        if self.count.covers(next.count) { next } else { Items { count: Size::Unbounded, ..next } }
    }

    /// Returns true if `other` has at most as many items as `self`, and no larger items.
    #[must_use]
    pub const fn covers(self, other: Items) -> bool {
        self.count.covers(other.count) && self.largest.covers(other.largest)
    }

    /// Returns true if there are no items.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self.count, Size::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: Items = Items::one(Size::Bounded(9));

    /// Requirement: R107
    #[test]
    fn a_struct_holds_the_sum_and_a_union_the_most() {
        let two = ITEM.and(Items::one(Size::Bounded(3)));
        assert_eq!(two, Items { count: Size::Bounded(2), largest: Size::Bounded(9) });
        assert_eq!(Items::one(Size::Bounded(3)).and(ITEM), two);
        assert_eq!(two.or(ITEM), two);
        assert_eq!(ITEM.times(4).count, Size::Bounded(4));
        assert_eq!(ITEM.array(u32::MAX).count, Size::Unbounded);
        assert_eq!((ITEM.times(0), ITEM.array(0)), (Items::NONE, Items::NONE));
    }

    #[test]
    fn cyclic_types_are_unbounded() {
        // In a list whose nodes each contain an item, the second evaluation finds one more item.
        let node = |next: Items| ITEM.and(next);
        let (first, second) = (node(Items::NONE), node(node(Items::NONE)));
        assert_eq!(first.grown(second), Items { count: Size::Unbounded, largest: Size::Bounded(9) });
        // A chain of unions that ends with an item contains one item.
        let chain = |next: Items| ITEM.or(next);
        let first = chain(Items::NONE);
        assert_eq!(first.grown(chain(first)), ITEM);
    }

    #[test]
    fn fewer_and_smaller_items_are_covered() {
        let many = Items { count: Size::Unbounded, largest: Size::Bounded(9) };
        assert!(many.covers(ITEM) && ITEM.covers(Items::NONE) && Items::NONE.is_none());
        assert!(!ITEM.covers(many) && !many.covers(Items::one(Size::Bounded(10))));
    }
}
