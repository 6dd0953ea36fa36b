//! What derived code needs and people do not.

use alloc::vec::Vec;

/// The element type of an array's container.
pub trait Elements {
    /// The element.
    type Element;
}

impl<T> Elements for Vec<T> {
    type Element = T;
}

/// The least of some sizes; none is 0.
#[must_use]
pub const fn least(sizes: &[u64]) -> u64 {
    let Some((first, mut rest)) = sizes.split_first() else { return 0 };
    let mut least = *first;
    while let Some((next, behind)) = rest.split_first() {
        if *next < least {
            least = *next;
        }
        rest = behind;
    }
    least
}
