//! The lengths of the encodings of XDR types (RFC 4506), and the DDP-eligible items of their values (RFC
//! 8166).
//!
//! rpcrdma-xdrgen and derived code both use this crate, so they compute the same lengths and items.
//!
//! ```
//! use rpcrdma_layout::{Items, Lengths, Size};
//!
//! // struct { unsigned int count; opaque data<100>; }. RDMA may place `data` directly.
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
//! | `T *x` | [`optional`](Lengths::optional) | those of `T` |
//! | a cycle | [`UNKNOWN`](Lengths::UNKNOWN) at the box or array that closes it | [`grown`](Items::grown) |
#![no_std]
// Bounds come from untrusted documents, so unchecked indexing and arithmetic are denied.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod items;
mod lengths;
mod size;

pub use items::Items;
pub use lengths::Lengths;
pub use size::Size;

/// The default maximum total size of the Read chunks of one call, in bytes (8 MiB). A responder can have a
/// different limit.
pub const MAX_TRANSFER: u64 = 8 << 20;

/// The allowance for the headers of a call or reply, in bytes (64 KiB).
pub const MAX_HEADERS: u64 = 64 << 10;

/// The maximum number of Write chunks that a call offers for its reply. Further eligible items of a result
/// stay in the stream of the reply.
pub const WRITE_CHUNKS: u64 = 16;

/// The default memory budget of a server, in bytes (48 MiB). One call can use at most half of the budget.
pub const MEMORY: u64 = 48 << 20;
