//! ONC RPC over RPC-over-RDMA version 1 (RFC 8166).
//!
//! # Features
//!
//! | Feature     | Default | Adds |
//! |-------------|---------|------|
//! | `shell`     | yes     | `Client` and `Server` over tokio; implies `iwarp` |
//! | `iwarp`     | yes     | the traits of providers, and iWARP over TCP; implies `std` |
//! | `std`       | yes     | RPCSEC_GSS for servers, and CRC32C by the processor's instruction |
//! | `capture`   | no      | pcap files of iWARP: `RPCRDMA_PCAP` and `iwarp::IwarpOptions::capture` |
//! | `metrics`   | no      | metrics of clients and servers through the crate `metrics` |
//! | `serde`     | no      | serde for the XDR types |
//! | `arbitrary` | no      | arbitrary for the XDR types |
//!
//! A separate crate, `rpcrdma-verbs`, supports RDMA devices.
//!
//! Without features, the crate is `no_std` with `alloc`: the codec, the wire formats and the protocol
//! engines.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod proto;
#[cfg(feature = "iwarp")]
pub mod provider;
#[cfg(feature = "shell")]
mod shell;
pub mod wire;
pub mod xdr;

pub use proto::program;
pub use proto::rdma::{Config, Link, LongCall, MessageLimits, PeerLimits, Traffic, TransportError};
pub use proto::rpc::Services;
pub use proto::session::{Backoff, Reconnect};
#[cfg(feature = "shell")]
pub use shell::*;
