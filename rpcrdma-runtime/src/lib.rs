//! ONC RPC over RPC-over-RDMA version 1 (RFC 8166).
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
