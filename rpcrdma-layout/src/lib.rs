//! How long the encodings of an XDR type can be (RFC 4506), and which DDP-eligible items its values can hold
//! (RFC 8166).
//!
//! The rules are here once: the compiler computes `rpcrdma-xdrgen sizes` with them, and derived code the
//! constants of each type.
//!
//! ```
//! use rpcrdma_layout::{Items, Lengths, Size};
//!
//! // struct { unsigned int count; opaque data<100>; }, of which RDMA may place `data` directly.
//! let data = Size::of_bound(100);
//! let lengths = Lengths::fixed(4).and(Lengths::of_item(data));
//! assert_eq!(lengths, Lengths { min: 8, max: Size::Bounded(108), max_reduced: Size::Bounded(8) });
//! assert_eq!(Items::one(data).times(3), Items { count: Size::Bounded(3), largest: Size::Bounded(100) });
//! ```
//!
//! | XDR | [`Lengths`] | [`Items`] |
//! |---|---|---|
//! | fields of a struct | [`and`](Lengths::and) | [`and`](Items::and) |
//! | arms of a union | [`or`](Lengths::or) | [`or`](Items::or) |
//! | `T x[N]` | [`times`](Lengths::times) | [`times`](Items::times) |
//! | `T x<N>` | [`array`](Lengths::array) | [`array`](Items::array) |
//! | `T *x` | [`optional`](Lengths::optional) | as `T` |
//! | a cycle of types | [`UNKNOWN`](Lengths::UNKNOWN) at the closing box or array | [`grown`](Items::grown) |
#![no_std]
// Bounds come from documents.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod items;
mod lengths;
mod size;

pub use items::Items;
pub use lengths::Lengths;
pub use size::Size;

/// How many bytes the Read chunks of one call hold together at most, unless a responder has another limit (8
/// MiB).
pub const MAX_TRANSFER: u64 = 8 << 20;

/// Room for the headers around the arguments of a call or its results, in bytes.
pub const MAX_HEADERS: u64 = 64 << 10;

/// The maximum number of Write chunks that a call offers for its reply. Further eligible items of a result
/// stay in the stream of the reply.
pub const WRITE_CHUNKS: u64 = 16;

/// The default memory budget of a server, in bytes (48 MiB). Half of it is for one call at most.
pub const MEMORY: u64 = 48 << 20;
