use core::fmt;

/// A size in bytes or a number of values, possibly without a bound.
///
/// Arithmetic is `const` and never wraps: a result that does not fit in a `u64` is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// At most this many bytes or values.
    Bounded(u64),
    /// No bound.
    Unbounded,
}

impl Default for Size {
    fn default() -> Self {
        Size::ZERO
    }
}

impl Size {
    /// Zero.
    pub const ZERO: Size = Size::Bounded(0);

    /// Returns the sum of `self` and `other`.
    #[must_use]
    pub const fn plus(self, other: Size) -> Size {
        match (self, other) {
            (Size::Bounded(a), Size::Bounded(b)) => Size::known(a.checked_add(b)),
            _ => Size::Unbounded,
        }
    }

    const fn known(size: Option<u64>) -> Size {
        match size {
            Some(size) => Size::Bounded(size),
            None => Size::Unbounded,
        }
    }

    /// Returns `count` times `self`. The result is zero if either factor is zero.
    #[must_use]
    pub const fn times(self, count: u64) -> Size {
        self.repeated(Size::Bounded(count))
    }

    /// Returns `count` times `self`, where `count` may be unbounded. The result is zero if either factor is
    /// zero.
    #[must_use]
    pub const fn repeated(self, count: Size) -> Size {
        match (self, count) {
            (Size::ZERO, _) | (_, Size::ZERO) => Size::ZERO,
            (Size::Bounded(size), Size::Bounded(count)) => Size::known(size.checked_mul(count)),
            _ => Size::Unbounded,
        }
    }

    /// Returns the maximum number of bytes or elements of variable-length data with the bound `max`. Returns
    /// `Unbounded` for the largest XDR count, which is the bound of `<>`.
    #[must_use]
    pub const fn of_bound(max: u32) -> Size {
        if max == u32::MAX { Size::Unbounded } else { Size::Bounded(max as u64) }
    }

    /// Returns `self` rounded up to a multiple of four.
    #[must_use]
    pub const fn with_padding(self) -> Size {
        match self {
            Size::Bounded(len) => Size::padded(len),
            Size::Unbounded => Size::Unbounded,
        }
    }

    /// Returns the larger size.
    #[must_use]
    pub const fn max(self, other: Size) -> Size {
        match (self, other) {
            (Size::Bounded(a), Size::Bounded(b)) => Size::Bounded(if a > b { a } else { b }),
            _ => Size::Unbounded,
        }
    }

    /// Returns the smaller size.
    #[must_use]
    pub const fn min(self, other: Size) -> Size {
        match (self, other) {
            (Size::Bounded(a), Size::Bounded(b)) => Size::Bounded(if a < b { a } else { b }),
            (Size::Unbounded, size) | (size, Size::Unbounded) => size,
        }
    }

    /// Returns the size of `len` bytes of opaque data, including their padding.
    #[must_use]
    pub const fn padded(len: u64) -> Size {
        Size::Bounded(len).plus(Size::Bounded(len.wrapping_neg() & 3))
    }

    /// Returns the bound, or `None` if the size is unbounded.
    #[must_use]
    pub const fn bound(self) -> Option<u64> {
        match self {
            Size::Bounded(bound) => Some(bound),
            Size::Unbounded => None,
        }
    }

    /// Returns true if the size is at most `limit`.
    #[must_use]
    pub const fn fits(self, limit: u64) -> bool {
        Size::Bounded(limit).covers(self)
    }

    /// Returns true if `other` is not larger than `self`.
    #[must_use]
    pub const fn covers(self, other: Size) -> bool {
        match (self, other) {
            (Size::Unbounded, _) => true,
            (Size::Bounded(_), Size::Unbounded) => false,
            (Size::Bounded(own), Size::Bounded(other)) => other <= own,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bounded(bound) => write!(f, "{bound}"),
            Size::Unbounded => f.write_str("unbounded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Size::{Bounded, Unbounded};
    use super::*;

    #[test]
    fn overflow_is_unbounded_and_never_wraps() {
        assert_eq!(Bounded(u64::MAX).plus(Bounded(1)), Unbounded);
        assert_eq!(Bounded(u64::MAX / 2).times(3), Unbounded);
        assert_eq!(Size::padded(u64::MAX), Unbounded);
        assert_eq!(Size::padded(5), Bounded(8));
        assert_eq!(Size::padded(8), Bounded(8));
    }

    #[test]
    fn zero_times_unbounded_is_zero() {
        assert_eq!(Unbounded.times(0), Size::ZERO);
        assert_eq!(Size::ZERO.repeated(Unbounded), Size::ZERO);
        assert_eq!(Bounded(4).repeated(Unbounded), Unbounded);
        assert_eq!(Bounded(4).repeated(Bounded(3)), Bounded(12));
    }

    #[test]
    fn the_smaller_of_unbounded_and_a_bound_is_the_bound() {
        assert_eq!(Unbounded.min(Bounded(9)), Bounded(9));
        assert_eq!(Unbounded.max(Bounded(9)), Unbounded);
        assert!(Bounded(9).fits(9) && !Bounded(9).fits(8) && !Unbounded.fits(u64::MAX));
    }
}
