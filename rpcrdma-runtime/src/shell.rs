//! The tokio driver: a [`Client`] that calls programs and a [`Server`] that serves them.
//!
//! A client's session and connection are behind one lock. Callers submit their calls on their own tasks. One
//! task per client waits for the peer and for timers. A server has one task for each connection; a handler
//! that waits moves to its own task. The buffers of an abandoned call stay with the connection until the
//! buffers are fenced.

mod accept;
mod address;
mod backward;
mod checks;
mod client;
mod client_handle;
mod credits;
mod driver;
mod duplicates;
mod error;
mod exchange;
mod gss;
mod inbound;
mod limits;
mod memory;
mod message_transport;
mod metrics;
mod observer;
mod options;
mod rdma;
mod result_memory;
mod running;
mod server;
mod serving;
mod slots;
mod spans;
mod stats;
mod tcp;
#[cfg(test)]
mod testing;
mod waiters;
mod warnings;

pub use crate::provider::ConnectError;
pub use address::ToAddress;
pub use backward::{BackwardClient, Bidirectional};
pub use client::Client;
pub use duplicates::{CachePolicy, CallerScope, DuplicateCache, DuplicateOptions};
pub use error::{CallError, CallTarget, ServeError};
pub use gss::GssClient;
pub use limits::{Limits, TimeLimits};
pub use memory::{CallMemory, MemoryBudget};
pub use message_transport::{MessageTransport, Sends};
#[cfg(feature = "metrics")]
pub use metrics::facade::enable_metrics;
pub use observer::{CallReport, Observer};
pub use options::{ClientOptions, ServerOptions};
pub use result_memory::ResultMemoryError;
pub use server::{Server, serve_connection};
pub use slots::PeerFilter;
pub use stats::{ClientSnapshot, ConnectionCounts, DuplicateCounts, Failures, ServerSnapshot, ServerStats};
pub use tcp::{TcpClient, TcpClientOptions, TcpOptions, TcpServer, TcpServerOptions};
