//! RDMA devices through libibverbs and librdmacm: InfiniBand, RoCE and iWARP adapters, and Linux's software
//! devices rxe and siw.
//!
//! A `Client` of [`rpcrdma_runtime`] connects with a [`VerbsConnector`]. A `Server` accepts connections
//! through a [`VerbsListener`]:
//!
//! ```no_run
//! # #[cfg(feature = "devices")]
//! # mod example {
//! use rpcrdma_runtime::{Client, ClientOptions, Server, ServerOptions};
//! use rpcrdma_verbs::{VerbsConnector, VerbsListener, VerbsOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = VerbsListener::bind("192.0.2.1:20049", VerbsOptions::default()).await?;
//! let server = Server::with_acceptor(listener, ServerOptions::default())?;
//!
//! let connector = VerbsConnector::new("192.0.2.1:20049", VerbsOptions::default());
//! let client = Client::connect_via(connector, ClientOptions::default()).await?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! Without the feature `devices`, the crate is empty. The feature needs the system packages listed in
//! README.md.
//!
//! [`AutoConnector`] uses an RDMA device with a route to the server. Without such a device, it uses iWARP in
//! user space.
//!
//! # Items
//!
//! | to | use |
//! |---|---|
//! | connect to a server | [`VerbsConnector`], [`AutoConnector`] |
//! | accept connections | [`VerbsListener`] |
//! | set queue sizes, timeouts and remote invalidation | [`VerbsOptions`], [`MemoryWindows`] |
//! | list the devices of the machine | [`devices()`] |
//!
//! # Remote invalidation
//!
//! If the device supports type 2 memory windows, a client advertises windows and lets the server invalidate
//! them (R flag 1, RFC 8797 section 4.1). [`MemoryWindows`] lists the exceptions. Without windows, the client
//! forbids remote invalidation (R flag 0): it advertises memory regions and deregisters each region to fence
//! it.
//!
//! If a peer invalidates a handle although the R flag is 0, the connection is closed, provided that the
//! device's library reports the invalidation. The library for siw does not: the connection stays open, and
//! only the handle becomes invalid.
//!
//! # Unsafe code
//!
//! This crate has unsafe code, because it calls functions of C libraries directly. No other crate of the
//! project has unsafe code.

#![cfg_attr(not(feature = "devices"), allow(rustdoc::broken_intra_doc_links))]
#![cfg(feature = "devices")]

mod address;
mod blocking;
mod cm;
mod connection;
mod connector;
mod device;
mod error;
#[cfg(all(test, miri))]
mod fake_device;
mod objects;
mod options;
mod pace;
mod queue_pair;
mod rdmacm_ffi;
mod read_buffers;
mod request;
mod setup;
mod slots;
#[cfg(all(test, miri))]
mod tests;
mod windows;

/// Compiles the program in the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rdma-devices.md")]
struct Guide;

pub use connection::VerbsConnection;
pub use connector::{AutoConnector, VerbsConnector};
pub use device::{Device, Port, devices};
pub use error::VerbsError;
pub use options::{MemoryWindows, VerbsOptions};
pub use setup::{VerbsListener, VerbsRequest, connect, device_for, serves};
