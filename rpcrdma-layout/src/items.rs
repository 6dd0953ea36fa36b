use crate::Size;

/// The DDP-eligible items that one value of a type can hold.
///
/// If types hold each other in a cycle, their items are the least solution of the equations that
/// [`Items::and`], [`Items::or`], [`Items::times`] and [`Items::array`] give. Each type of a cycle holds the
/// others, so all have the same number. To find it, evaluate all equations with [`Items::NONE`] for the types
/// of the cycle, and take the largest count. Evaluate them again with that: if a count grows, it has no bound
/// ([`Items::grown`]), since the value that made it grow holds its own type again and one more item, any
/// number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// How many items.
    pub count: Size,
    /// The largest item in bytes, without padding; zero if there is none.
    pub largest: Size,
}

impl Items {
    /// No items.
    pub const NONE: Items = Items { count: Size::ZERO, largest: Size::ZERO };

    /// One item of at most this many bytes.
    #[must_use]
    pub const fn one(largest: Size) -> Self {
        Items { count: Size::Bounded(1), largest }
    }

    /// Those of `self` and those of `other`: fields of a struct.
    #[must_use]
    pub const fn and(self, other: Items) -> Self {
        Items { count: self.count.plus(other.count), largest: self.largest.max(other.largest) }
    }

    /// Those of `self` or those of `other`: arms of a union.
    #[must_use]
    pub const fn or(self, other: Items) -> Self {
        Items { count: self.count.max(other.count), largest: self.largest.max(other.largest) }
    }

    /// Those of `count` values: a fixed-length array.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        self.repeated(Size::Bounded(count))
    }

    /// Those of a counted array of at most `max` values.
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

    /// `next`, the value of the same equations in the second round; its count has no bound if it is larger
    /// than that of `self`.
    #[must_use]
    pub const fn grown(self, next: Items) -> Self {
        if self.count.covers(next.count) { next } else { Items { count: Size::Unbounded, ..next } }
    }

    /// Returns true if `other` has no more items than `self` and none that is larger.
    #[must_use]
    pub const fn covers(self, other: Items) -> bool {
        self.count.covers(other.count) && self.largest.covers(other.largest)
    }

    /// Returns true if there are none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self.count, Size::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: Items = Items::one(Size::Bounded(9));

    #[test]
    fn a_struct_holds_the_sum_and_a_union_the_most() {
        let two = ITEM.and(Items::one(Size::Bounded(3)));
        assert_eq!(two, Items { count: Size::Bounded(2), largest: Size::Bounded(9) });
        assert_eq!(two.or(ITEM), two);
        assert_eq!(ITEM.times(4).count, Size::Bounded(4));
        assert_eq!(ITEM.array(u32::MAX).count, Size::Unbounded);
        assert_eq!((ITEM.times(0), ITEM.array(0)), (Items::NONE, Items::NONE));
    }

    #[test]
    fn cyclic_types_are_unbounded() {
        // A list whose nodes hold an item each: the second round finds one more.
        let node = |next: Items| ITEM.and(next);
        let (first, second) = (node(Items::NONE), node(node(Items::NONE)));
        assert_eq!(first.grown(second), Items { count: Size::Unbounded, largest: Size::Bounded(9) });
        // A chain of unions that ends with an item holds one.
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
