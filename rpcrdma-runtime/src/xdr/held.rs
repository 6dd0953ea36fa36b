//! Which DDP-eligible items a value can hold, where types hold each other.
//!
//! A circle of types has no sum that could be worked out type by type, since each would need the others' first. So the
//! compiler goes down from a type as far as [`Full`] allows, a level with each box, array and recursive field, and looks
//! whether there is more than there was half way: then there is any number of it.

use core::marker::PhantomData;

use super::{Layout, Size};

/// What some values hold of DDP-eligible items.
pub trait Holds {
    /// The largest item in bytes, without padding.
    const ITEM: Size;
    /// How many.
    const ITEMS: Size;
}

/// How many levels further down is looked.
pub trait Depth: 'static {
    /// What a value of this type holds, seen from one level above.
    type Behind<T: Layout>: Holds;
}

/// No further.
struct Zero;

/// One level further.
struct Next<D>(PhantomData<D>);

type Four<D> = Next<Next<Next<Next<D>>>>;

/// Half the way down.
type Half = Four<Four<Zero>>;

/// All the way down: what is behind more than sixteen boxes or arrays, one in the other, is not seen.
type Full = Four<Four<Half>>;

impl Depth for Zero {
    type Behind<T: Layout> = Nothing;
}

impl<D: Depth> Depth for Next<D> {
    type Behind<T: Layout> = T::Held<D>;
}

/// The items of types in a circle: what was found half the way down, and all the way.
const fn settled(half: Size, full: Size) -> Size {
    match (half, full) {
        (Size::Bounded(half), Size::Bounded(full)) if half == full => Size::Bounded(full),
        _ => Size::Unbounded,
    }
}

/// What a value of this type holds, seen from one level above, as far down as is looked.
#[derive(Debug)]
pub struct Settled<T>(PhantomData<T>);

impl<T: Layout> Settled<T> {
    /// The largest item and the number of items, level by level. The compiler keeps what it has worked out, and each level
    /// asks for the one before: asked for at once, the last would have it nest as deep as all of them together, which it
    /// refuses for types that have many others in place.
    const LEVELS: [(Size, Size); 17] = [
        Self::at::<Zero>(),
        Self::at::<Next<Zero>>(),
        Self::at::<Next<Next<Zero>>>(),
        Self::at::<Next<Next<Next<Zero>>>>(),
        Self::at::<Four<Zero>>(),
        Self::at::<Next<Four<Zero>>>(),
        Self::at::<Next<Next<Four<Zero>>>>(),
        Self::at::<Next<Next<Next<Four<Zero>>>>>(),
        Self::at::<Half>(),
        Self::at::<Next<Half>>(),
        Self::at::<Next<Next<Half>>>(),
        Self::at::<Next<Next<Next<Half>>>>(),
        Self::at::<Four<Half>>(),
        Self::at::<Next<Four<Half>>>(),
        Self::at::<Next<Next<Four<Half>>>>(),
        Self::at::<Next<Next<Next<Four<Half>>>>>(),
        Self::at::<Full>(),
    ];

    const fn at<D: Depth>() -> (Size, Size) {
        (<D::Behind<T> as Holds>::ITEM, <D::Behind<T> as Holds>::ITEMS)
    }
}

impl<T: Layout> Holds for Settled<T> {
    const ITEM: Size = Self::LEVELS[16].0;
    const ITEMS: Size = settled(Self::LEVELS[8].1, Self::LEVELS[16].1);
}

/// No items.
#[derive(Debug)]
pub struct Nothing;

impl Holds for Nothing {
    const ITEM: Size = Size::ZERO;
    const ITEMS: Size = Size::ZERO;
}

/// What the type says of itself, wherever one looks at it from: for a [`Layout`] that is written by hand, and for types that
/// hold no others.
#[derive(Debug)]
pub struct Stated<T: ?Sized>(PhantomData<T>);

impl<T: Layout + ?Sized> Holds for Stated<T> {
    const ITEM: Size = T::ITEM;
    const ITEMS: Size = T::ITEMS;
}

/// The sum of a type's fields, seen so far down.
pub trait Fields<D: Depth> {
    /// The largest item in bytes, without padding.
    const ITEM: Size;
    /// How many.
    const ITEMS: Size;
}

/// A type that has fields, seen so far down.
#[derive(Debug)]
pub struct Of<T, D>(PhantomData<(T, D)>);

impl<T: Fields<D>, D: Depth> Holds for Of<T, D> {
    const ITEM: Size = T::ITEM;
    const ITEMS: Size = T::ITEMS;
}

/// A fixed number of values.
#[derive(Debug)]
pub struct Array<H, const LEN: usize>(PhantomData<H>);

impl<H: Holds, const LEN: usize> Holds for Array<H, LEN> {
    const ITEM: Size = H::ITEM;
    const ITEMS: Size = H::ITEMS.times(LEN as u64);
}

/// At most so many values; XDR's largest count is no bound that anybody chose.
#[derive(Debug)]
pub struct Many<H, const MAX: u32 = { u32::MAX }>(PhantomData<H>);

impl<H: Holds, const MAX: u32> Holds for Many<H, MAX> {
    const ITEM: Size = H::ITEM;
    const ITEMS: Size =
        H::ITEMS.repeated(if MAX == u32::MAX { Size::Unbounded } else { Size::Bounded(MAX as u64) });
}
