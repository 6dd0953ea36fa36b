//! iWARP in user space over TCP. This provider needs no driver, kernel module or hardware, and interoperates
//! with iWARP peers such as Linux's siw.
//!
//! [`connect`] and [`IwarpRequest::accept`] return an [`IwarpConnection`], which implements
//! [`Connection`](super::Connection). [`IwarpConnector`] implements [`Connector`](super::Connector) for
//! clients, and [`IwarpListener`] implements [`Acceptor`](super::Acceptor) for servers.

#[cfg_attr(not(feature = "capture"), path = "iwarp/no_capture.rs")]
mod capture;
mod connection;
mod connector;
mod deadlines;
mod error;
mod handshake;
pub(crate) mod options;

#[cfg(feature = "capture")]
pub use capture::{CAPTURE_VARIABLE, CaptureFile};
pub use capture::{Capture, CaptureError};
pub use connection::IwarpConnection;
pub use connector::IwarpConnector;
pub use error::IwarpError;
pub use handshake::{Incoming, IwarpListener, IwarpRequest, connect};
pub use options::{IwarpOptions, Keepalive};
