//! RDMA devices, by libibverbs and librdmacm: InfiniBand, RoCE and iWARP adapters, and Linux's software devices rxe and siw.
//!
//! [`VerbsConnector`] is for a `Client` of [`rpcrdma_runtime`], and [`Listener`] for a `Server`:
//!
//! ```no_run
//! # #[cfg(feature = "devices")]
//! # mod example {
//! use rpcrdma_runtime::shell::{ClientOptions, ServerOptions};
//! use rpcrdma_runtime::{Client, Server};
//! use rpcrdma_verbs::{Listener, Options, VerbsConnector};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind("192.0.2.1:20049", Options::default()).await?;
//! let server = Server::with_acceptor(listener, ServerOptions::default())?;
//!
//! let connector = VerbsConnector::new("192.0.2.1:20049", Options::default());
//! let client = Client::connect_via(connector, ClientOptions::default()).await?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! Everything is behind the feature `devices`, which needs system packages: without it the crate is empty.
//!
//! [`AutoConnector`] uses a device where one leads to the server, and iWARP in user space elsewhere.
//!
//! Where the device has memory windows of type 2, who connects advertises windows, and the peer may invalidate them (the R flag is
//! 1, RFC 8797 section 4.1); [`MemoryWindows`] has the exceptions. Elsewhere the peer cannot (R is 0): each piece of memory has a
//! region, which is destroyed as its fence. A peer that does it nonetheless loses the connection, where the library of the device
//! tells of it; that of siw does not, and there the handle loses its meaning only.
//!
//! This is the only crate of the project with unsafe code, since it calls C libraries. `cm`, `objects` and `queue_pair` own the
//! objects of these libraries.

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
pub use connector::{AutoConnector, VerbsConnector};
pub use device::{Device, Port, devices};
pub use error::ConnectError;
pub use options::{MemoryWindows, Options};
pub use setup::{Listener, Request, connect, device_for, serves};
