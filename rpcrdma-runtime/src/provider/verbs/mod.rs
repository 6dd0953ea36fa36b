//! RDMA devices, by libibverbs and librdmacm: InfiniBand, RoCE and iWARP adapters, and Linux's software devices rxe and siw.
//!
//! [`connect`] and [`Listener`] make a [`VerbsConnection`], which is a [`Connection`](super::Connection).
//!
//! Where the device has memory windows of type 2, who connects advertises windows, and the peer may invalidate them (the R flag is
//! 1, RFC 8797 section 4.1); [`MemoryWindows`] has the exceptions. Elsewhere the peer cannot (R is 0): each piece of memory has a
//! region, which is destroyed as its fence. A peer that does it nonetheless loses the connection, where the library of the device
//! tells of it; that of siw does not, and there the handle loses its meaning only.
//!
//! This is the one place with memory-unchecked code, since C libraries are called. What owns their objects is in `cm`,
//! `objects` and `queue_pair`; all else uses these and has none.

#![warn(clippy::undocumented_unsafe_blocks)]

mod address;
mod aside;
mod cm;
mod connection;
mod device;
mod error;
mod objects;
mod options;
#[cfg(all(test, miri))]
mod pretend;
mod queue_pair;
mod rdmacm_ffi;
mod request;
mod setup;
mod sinks;
mod slots;
#[cfg(all(test, miri))]
mod tests;
mod windows;

pub use connection::VerbsConnection;
pub use device::{Device, Port, devices};
pub use error::ConnectError;
pub use options::{MemoryWindows, Options};
pub use setup::{Listener, Request, connect, device_for, serves};
