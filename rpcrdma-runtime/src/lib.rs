//! ONC RPC over RPC-over-RDMA version 1 (RFC 8166).
//!
//! # Features
//!
//! | Feature     | Default | Adds |
//! |-------------|---------|------|
//! | `shell`     | yes     | `Client` and `Server` over tokio; implies `iwarp` |
//! | `iwarp`     | yes     | the iWARP provider over TCP; implies `std` |
//! | `std`       | yes     | the in-memory fabric and CRC32C by the processor's instruction |
//! | `capture`   | no      | pcap files of iWARP connections: `RPCRDMA_PCAP` and `iwarp::Options::capture` |
//! | `verbs`     | no      | RDMA devices by libibverbs and librdmacm |
//! | `serde`     | no      | serde for the XDR types |
//! | `arbitrary` | no      | arbitrary for the XDR types |
//!
//! Without features the crate is `no_std` with `alloc`: the codec, the wire formats and the protocol engines.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod proto;
#[cfg(feature = "std")]
pub mod provider;
#[cfg(feature = "shell")]
pub mod shell;
pub mod wire;
pub mod xdr;

#[cfg(feature = "shell")]
pub use shell::{Client, Limits, Server};
