//! RDMA devices, by libibverbs and librdmacm: InfiniBand, RoCE and iWARP adapters, and Linux's software devices rxe and siw.
//!
//! [`connect`] and [`Listener`] make a [`VerbsConnection`], which is a [`Connection`](super::Connection).
//!
//! The peer cannot invalidate memory of this end (its R flag is to be 0, RFC 8797 section 4.1): each piece of memory has a
//! region, which is destroyed as its fence. A peer that does it nonetheless loses the connection, where the library of the device
//! tells of it; that of siw does not, and there the handle loses its meaning only.
//!
//! This is the one place with memory-unchecked code, since C libraries are called. What owns their objects is in `cm`,
//! `objects` and `queue_pair`; all else uses these and has none.

mod address;
mod cm;
mod connection;
mod device;
mod error;
mod objects;
mod options;
mod queue_pair;
mod rdmacm_ffi;
mod setup;
mod slots;

pub use connection::VerbsConnection;
pub use device::{Device, Port, devices};
pub use error::ConnectError;
pub use options::Options;
pub use setup::{Listener, Request, connect, device_for, serves};
