//! RPC over TCP with record marking (RFC 5531 section 11): what rpcbind, MOUNT and peers without RDMA speak.
//!
//! The same programs and the same services as over RPC-over-RDMA. A program needs no Upper-Layer Binding here, for
//! nothing is placed directly.

mod backward;
mod call_slots;
mod client;
mod inbound;
mod line;
mod options;
mod outbound;
mod server;
mod stream;

pub use client::TcpClient;
pub use options::{TcpClientOptions, TcpOptions, TcpServerOptions};
pub use server::TcpServer;
