//! The tokio driver: a [`Client`] that calls programs and a [`Server`] that serves them.
//!
//! One task owns each connection and its engine. Callers hand it their calls and wait; handlers run as tasks of
//! their own. A caller that gives up leaves its buffers with the connection's task until they are fenced.

mod accept;
mod backward;
mod calls;
mod carried;
mod carrier;
mod client;
mod driver;
mod duplicates;
mod error;
mod gss;
mod limits;
mod options;
mod running;
mod server;
mod serving;
mod stats;
mod tcp;

pub use backward::{BackwardClient, BothWays};
pub use carried::{Provider, UnknownProvider};
pub use carrier::Carrier;
pub use client::{CallReport, Client};
pub use duplicates::{CallerScope, DuplicateCache, DuplicateOptions, Remember};
pub use error::{CallError, ConnectError, ServeError};
pub use gss::GssClient;
pub use limits::{Limits, TimeLimits};
pub use options::{ClientOptions, Observer, ServerOptions};
pub use server::{Server, serve_connection};
pub use stats::{ClientSnapshot, ConnectionCounts, DuplicateCounts, Failures, ServerSnapshot, ServerStats};
pub use tcp::{TcpClient, TcpClientOptions, TcpOptions, TcpServer, TcpServerOptions};
