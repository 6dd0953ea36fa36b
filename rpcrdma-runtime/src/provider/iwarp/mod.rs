//! iWARP in user space over TCP: no driver, no module, no hardware. It speaks to any iWARP peer, Linux's siw
//! among them.
//!
//! [`connect`] and [`Listener`] make an [`IwarpConnection`], which is a [`Connection`](super::Connection). [`IwarpConnector`]
//! is for clients.

#[cfg(feature = "capture")]
mod capture;
#[cfg(not(feature = "capture"))]
#[path = "no_capture.rs"]
mod capture;
mod connection;
mod connector;
mod deadlines;
mod error;
mod handshake;
mod options;

#[cfg(feature = "capture")]
pub use capture::{CAPTURE_VARIABLE, CaptureFile};
pub use capture::{Capture, CaptureError};
pub use connection::IwarpConnection;
pub use connector::IwarpConnector;
pub use error::ConnectError;
pub use handshake::{Incoming, Listener, Request, connect};
pub use options::{Keepalive, Options};
