//! RPC over TCP with record marking (RFC 5531 section 11): for rpcbind, MOUNT and peers without RDMA.
//!
//! The programs and services are the same as over RPC-over-RDMA. Over TCP, a program needs no Upper-Layer
//! Binding, because nothing is placed directly.

mod backward;
mod call_slots;
mod client;
mod inbound;
mod options;
mod outbound;
mod requester;
mod server;
mod stream;

pub use client::TcpClient;
pub(super) use inbound::serve_socket;
pub use options::{TcpClientOptions, TcpOptions, TcpServerOptions};
pub use server::TcpServer;
