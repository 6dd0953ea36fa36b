//! Types with cycles through boxes, arrays and type parameters. The tests check the sizes and numbers of
//! eligible items.

use rpcrdma_runtime::program::ReplyBounds;
use rpcrdma_runtime::proto::rdma::ReplyResources;
use rpcrdma_runtime::xdr::{Encode, Layout, Opaque, Reducer, Size, Xdr, from_slice, to_bytes};

/// A cycle of two types. One of them has an eligible item.
#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Folder {
    number: u32,
    first: Option<Box<File>>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct File {
    #[ddp_eligible]
    data: Opaque<3000>,
    #[xdr(recursive)]
    next: Option<Box<Folder>>,
}

/// A cycle without eligible items.
#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Left {
    #[xdr(recursive)]
    rights: Vec<Right>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Right {
    left: Left,
    more: Option<Box<Self>>,
}

/// A maximum from an associated constant, and a cycle through `Self`.
#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Few<T> {
    #[xdr(max = "Self::MOST")]
    some: Vec<T>,
    more: Option<Box<Self>>,
}

impl<T> Few<T> {
    const MOST: u32 = 3;
}

/// A type that contains itself through a type parameter, as `Self` and by its name.
#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Loop {
    #[ddp_eligible]
    data: Opaque<500>,
    next: LinkTo<Self>,
    #[xdr(max = 2)]
    more: Vec<LinkTo<Loop>>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct LinkTo<T> {
    to: Option<Box<T>>,
}

/// Boxes without a cycle.
#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Parcel {
    content: Box<Content>,
    spare: Option<Box<Content>>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Content {
    mark: u64,
    #[ddp_eligible]
    data: Opaque<500>,
}

/// Type parameters within and around cycles.
#[derive(Clone, Debug, PartialEq, Xdr)]
struct Row<T> {
    value: T,
    next: Option<Box<Row<T>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Pair<A, B> {
    first: A,
    second: Box<B>,
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
#[xdr(items = unbounded, largest = 3000)]
struct Node {
    pairs: Option<Box<Pair<Folder, Node>>>,
}

/// Defines a cycle of types, each with an optional box of the next type. If a field type is given,
/// the second-to-last type has an eligible field of this type.
macro_rules! cycle {
    ($module:ident of $($field:ty)? : $first:ident $($name:ident)*) => {
        mod $module {
            use super::*;
            cycle!(@ $first ($($field)?) $first $($name)*);
        }
    };
    (@ $first:ident ($($field:ty)?) $one:ident $last:ident) => {
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        pub struct $one {
            $(#[ddp_eligible] pub data: $field,)?
            #[xdr(recursive)]
            pub next: Option<Box<$last>>,
        }
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        pub struct $last {
            pub next: Option<Box<$first>>,
        }
    };
    (@ $first:ident ($($field:ty)?) $one:ident $next:ident $($rest:ident)+) => {
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        pub struct $one {
            pub next: Option<Box<$next>>,
        }
        cycle!(@ $first ($($field)?) $next $($rest)+);
    };
}

cycle!(five of Opaque<70>: A B C D E);
cycle!(eight of Opaque<70>: A B C D E F G H);
cycle!(five_plain of : A B C D E);
cycle!(twelve_plain of : A B C D E F G H I J K L);
cycle!(twenty of Opaque<70>: A B C D E F G H I J K L M N O P Q R S T);

/// A cycle in which each value contains at most one item, at the end of a chain of unions.
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "bool")]
enum Chain {
    #[xdr(case = true)]
    Rest(Option<Box<Chain>>),
    #[xdr(case = false)]
    #[ddp_eligible]
    End(Opaque<40>),
}

/// Like `Chain`, but a value can contain two further values, so the number of items is unbounded.
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(union = "bool")]
enum Fork {
    #[xdr(case = true)]
    Both(Box<[Option<Box<Fork>>; 2]>),
    #[xdr(case = false)]
    #[ddp_eligible]
    End(Opaque<40>),
}

/// The parameters are swapped, so the box contains a different type.
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(items = unbounded, largest = 500)]
struct Swap<A, B> {
    first: A,
    second: Option<Box<Swap<B, A>>>,
}

/// Contains a type with the same name as the struct after this module. The shared name causes no cycle.
mod old {
    use super::*;
    #[derive(Clone, Debug, Default, PartialEq, Xdr)]
    pub struct Version {
        #[ddp_eligible]
        pub data: Opaque<60>,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Version {
    old: old::Version,
}

/// A struct with an item and with a cycle that has no items.
#[derive(Clone, Debug, Default, PartialEq, Xdr)]
struct Beside {
    #[ddp_eligible]
    data: Opaque<80>,
    cycle: five_plain::A,
}

/// Defines a cycle of types. Each type contains the next type directly, except that the last type has an
/// optional box of the first type.
macro_rules! in_place {
    ($first:ident: $last:ident) => {
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        pub struct $last {
            #[xdr(recursive)]
            pub up: Option<Box<$first>>,
        }
    };
    ($first:ident: $one:ident $next:ident $($rest:ident)*) => {
        #[derive(Clone, Debug, Default, PartialEq, Xdr)]
        pub struct $one {
            pub number: u32,
            pub next: $next,
        }
        in_place!($first: $next $($rest)*);
    };
}

mod twelve_in_place {
    use super::*;
    in_place!(A: A B C D E F G H I J K L);
}

/// Nested boxes without a cycle.
type Boxes<T> = Box<Box<Box<Box<Box<T>>>>>;

const fn items<T: Layout>() -> (Size, Size) {
    (T::HELD.largest, T::HELD.count)
}

fn round_trips<T: Xdr + PartialEq + core::fmt::Debug>(value: &T) {
    assert_eq!(from_slice::<T>(&to_bytes(value).unwrap()).unwrap(), *value);
}

fn reduced_items<T: Encode>(value: &T) -> usize {
    let mut reducer = Reducer::new(1);
    value.encode(&mut reducer).unwrap();
    reducer.into_message().items.len()
}

fn main() {
    const NONE: (Size, Size) = (Size::ZERO, Size::ZERO);
    assert_eq!(items::<Folder>(), (Size::Bounded(3000), Size::Unbounded));
    assert_eq!(items::<File>(), items::<Folder>());
    assert_eq!((items::<Left>(), items::<Right>()), (NONE, NONE));
    assert_eq!(items::<Parcel>(), (Size::Bounded(500), Size::Bounded(2)));
    assert_eq!((items::<Row<u32>>(), items::<Row<Left>>()), (NONE, NONE));
    assert_eq!(items::<Row<Content>>(), (Size::Bounded(500), Size::Unbounded));
    assert_eq!(items::<Row<Row<Box<Content>>>>(), items::<Row<Content>>());
    assert_eq!(items::<Pair<Pair<u32, Left>, Content>>(), (Size::Bounded(500), Size::Bounded(1)));
    assert_eq!(items::<Node>(), items::<Folder>());
    assert_eq!(items::<Loop>(), (Size::Bounded(500), Size::Unbounded));
    assert_eq!((items::<Few<u64>>(), items::<Few<Content>>()), (NONE, items::<Row<Content>>()));

    // In a cycle of structs that contains an item, the number of items is unbounded for any length of
    // the cycle.
    let many = (Size::Bounded(70), Size::Unbounded);
    assert_eq!((items::<five::A>(), items::<five::D>(), items::<five::E>()), (many, many, many));
    assert_eq!((items::<eight::A>(), items::<eight::G>(), items::<eight::H>()), (many, many, many));
    assert_eq!((items::<five_plain::A>(), items::<Vec<five_plain::B>>()), (NONE, NONE));
    assert_eq!((items::<twelve_plain::A>(), items::<twelve_in_place::A>()), (NONE, NONE));
    assert_eq!(items::<Box<Beside>>(), (Size::Bounded(80), Size::Bounded(1)));
    assert_eq!(items::<Vec<five::B>>(), many);
    assert_eq!((items::<twenty::A>(), items::<twenty::B>(), items::<twenty::T>()), (many, many, many));
    // Boxes, however deeply nested, change neither the maximum size nor the number of items.
    assert_eq!(items::<Boxes<Box<Content>>>(), (Size::Bounded(500), Size::Bounded(1)));
    assert_eq!(items::<Boxes<Boxes<Boxes<Content>>>>(), (Size::Bounded(500), Size::Bounded(1)));
    assert_eq!(items::<Chain>(), (Size::Bounded(40), Size::Bounded(1)));
    assert_eq!(items::<Fork>(), (Size::Bounded(40), Size::Unbounded));
    assert_eq!(items::<Swap<u32, Content>>(), (Size::Bounded(500), Size::Unbounded));
    assert_eq!(items::<Version>(), (Size::Bounded(60), Size::Bounded(1)));
    assert_eq!(Version::LENGTHS.max, Size::Bounded(64));
    assert_eq!(items::<Boxes<Boxes<Box<u32>>>>(), NONE);

    let file = |len: usize, next| File { data: vec![7; len].into(), next };
    let inner = Folder { number: 2, first: Some(Box::new(file(9, None))) };
    let folder = Folder { number: 1, first: Some(Box::new(file(2000, Some(Box::new(inner))))) };
    round_trips(&folder);
    assert_eq!((reduced_items(&folder), reduced_items(&vec![folder.clone(), folder.clone()])), (2, 4));
    round_trips(&Row {
        value: Parcel::default(),
        next: Some(Box::new(Row { value: Parcel::default(), next: None })),
    });
    round_trips(&Node { pairs: Some(Box::new(Pair { first: folder, second: Box::default() })) });
    let inner = Loop { data: vec![1].into(), ..Loop::default() };
    round_trips(&Loop { next: LinkTo { to: Some(Box::new(inner)) }, ..Loop::default() });
    round_trips(&Left { rights: vec![Right::default()] });

    // A client offers Write chunks for a reply only if the reply may contain items.
    let offered = |bounds: ReplyBounds| ReplyResources::for_reply(&bounds.with_unreduced(9000), 1024).unwrap();
    let bounds = ReplyBounds::of::<Folder>();
    assert_eq!(bounds.with_item(100).item, Size::Bounded(100));
    assert_eq!(offered(bounds.with_item(100)).write_chunks, [100; 16]);
    assert_eq!(offered(ReplyBounds::of::<Parcel>()).write_chunks, [500; 2]);
    assert!(offered(ReplyBounds::of::<Left>()).write_chunks.is_empty());
}
