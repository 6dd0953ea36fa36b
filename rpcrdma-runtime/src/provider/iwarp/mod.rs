//! iWARP in user space, over a TCP connection: RDMA on any machine, compatible with Linux's siw on the wire.

mod connection;
mod options;
mod setup;

pub use connection::IwarpConnection;
pub use options::Options;
pub use setup::{ConnectError, Incoming, Listener, Request, connect};
