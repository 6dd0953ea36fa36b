//! Which DDP-eligible items a value can hold, where types hold each other.
//!
//! A circle of types has no sum that could be worked out type by type, since each would need the others' first. So the
//! compiler goes down from a type as far as [`Full`] allows, a level with each box, array and recursive field. If it comes to
//! the end of everything, what it found is all there is. Else there are circles, or types that lie deeper, and by the types
//! that were met these are told apart: where all of them were met [`Half`] way down, what follows is more of the same, and
//! there is any number of items if more were found on the way on. Otherwise nothing is known, which is unbounded.

use core::marker::PhantomData;

use super::met::Met;
use super::{Layout, Size};

/// What some values hold of DDP-eligible items.
pub trait Holds {
    /// The largest item in bytes, without padding.
    const ITEM: Size;
    /// How many.
    const ITEMS: Size;
    /// Which types were met on the way.
    #[doc(hidden)]
    const MET: Met;
}

/// How many levels further down is looked.
pub trait Depth: 'static {
    /// What a value of this type holds, seen from one level above.
    type Behind<T: Layout>: Holds;
}

/// No further.
#[derive(Debug)]
#[allow(unreachable_pub)] // named by what is public
pub struct Zero;

/// One level further.
#[derive(Debug)]
#[allow(unreachable_pub)] // as above
pub struct Next<D>(PhantomData<D>);

type Four<D> = Next<Next<Next<Next<D>>>>;

/// A level less than half the way.
type Near = Next<Four<Zero>>;

/// Half the way down.
type Half = Next<Near>;

/// All the way down: twice as far and a level more. Where all types were met half the way down, and a type that has an item
/// can be met again, it is met again here: from wherever one gets to it, all are at most half the way away.
type Full = Next<Next<Next<Four<Half>>>>;

impl Depth for Zero {
    type Behind<T: Layout> = Unseen;
}

impl<D: Depth> Depth for Next<D> {
    type Behind<T: Layout> = Landed<T, D>;
}

/// A type that was met one level down.
#[derive(Debug)]
#[allow(unreachable_pub)] // as above
pub struct Landed<T, D>(PhantomData<(T, D)>);

impl<T: Layout, D: Depth> Holds for Landed<T, D> {
    const ITEM: Size = <T::Held<D> as Holds>::ITEM;
    const ITEMS: Size = <T::Held<D> as Holds>::ITEMS;
    const MET: Met = <T::Held<D> as Holds>::MET.with(T::TYPE);
}

/// What is too far down.
#[derive(Debug)]
#[allow(unreachable_pub)] // as above
pub struct Unseen;

impl Holds for Unseen {
    const ITEM: Size = Size::ZERO;
    const ITEMS: Size = Size::ZERO;
    const MET: Met = Met::UNSEEN;
}

/// The largest item of a type that is behind a box, or that is met again behind itself.
#[must_use]
pub const fn item_behind<T: Layout>() -> Size {
    let full = <<Full as Depth>::Behind<T> as Holds>::MET;
    if full.is_all() || all_met::<T>() {
        <<Full as Depth>::Behind<T> as Holds>::ITEM
    } else {
        Size::Unbounded
    }
}

/// The number of its items.
#[must_use]
pub const fn items_behind<T: Layout>() -> Size {
    let (half, full) =
        (<<Half as Depth>::Behind<T> as Holds>::MET, <<Full as Depth>::Behind<T> as Holds>::MET);
    if full.is_all() || (all_met::<T>() && full.has_no_more(&half)) {
        <<Full as Depth>::Behind<T> as Holds>::ITEMS
    } else {
        Size::Unbounded
    }
}

/// Whether there is no type that is not met half the way down.
const fn all_met<T: Layout>() -> bool {
    let (near, half) =
        (<<Near as Depth>::Behind<T> as Holds>::MET, <<Half as Depth>::Behind<T> as Holds>::MET);
    half.has_no_others(&near)
}

/// No items.
#[derive(Debug)]
pub struct Nothing;

impl Holds for Nothing {
    const ITEM: Size = Size::ZERO;
    const ITEMS: Size = Size::ZERO;
    const MET: Met = Met::NOTHING;
}

/// What the type says of itself, wherever one looks at it from: for a [`Layout`] that is written by hand, and for types that
/// hold no others.
#[derive(Debug)]
pub struct Stated<T: ?Sized>(PhantomData<T>);

impl<T: Layout + ?Sized> Holds for Stated<T> {
    const ITEM: Size = T::ITEM;
    const ITEMS: Size = T::ITEMS;
    const MET: Met = if matches!(T::ITEMS, Size::Bounded(0)) { Met::NOTHING } else { Met::ITEM };
}

/// A fixed number of values.
#[derive(Debug)]
pub struct Array<H, const LEN: usize>(PhantomData<H>);

impl<H: Holds, const LEN: usize> Holds for Array<H, LEN> {
    const ITEM: Size = H::ITEM;
    const ITEMS: Size = H::ITEMS.times(LEN as u64);
    const MET: Met = H::MET;
}

/// At most so many values; XDR's largest count is no bound that anybody chose.
#[derive(Debug)]
pub struct Many<H, const MAX: u32 = { u32::MAX }>(PhantomData<H>);

impl<H: Holds, const MAX: u32> Holds for Many<H, MAX> {
    const ITEM: Size = H::ITEM;
    const ITEMS: Size =
        H::ITEMS.repeated(if MAX == u32::MAX { Size::Unbounded } else { Size::Bounded(MAX as u64) });
    const MET: Met = H::MET;
}
