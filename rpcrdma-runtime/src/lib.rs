#![doc = include_str!("../README.md")]
//!
//! ## Items
//!
//! | to | use |
//! |---|---|
//! | call a program | [`Client`], [`TcpClient`] |
//! | serve programs | [`Server`], with its [`Limits`] |
//! | write a program by hand | [`program`] |
//! | define types | [`xdr`] and its derive |
//! | add a transport | [`provider`] |
//! | use the wire formats or the protocol engines alone | [`wire`], [`proto`] |
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

pub use proto::owner::Owner;
pub use proto::program;
pub use proto::rdma::{
    Config, Link, LongCall, MessageLimits, PeerLimits, Traffic, TransportError, Unsendable,
};
pub use proto::rpc::Services;
pub use proto::rpc::duplicates::{DuplicateLimits, ProcedureId};
#[cfg(feature = "std")]
pub use proto::rpc::gss::{GssCaller, GssServer, GssServerOptions};
pub use proto::rpc::gss::{
    GssContext, GssControl, GssCredential, GssError, GssExchange, GssFailure, GssMechanism, GssOverhead,
    GssService, GssSession, GssStep, InitAnswer, SequenceWindow,
};
pub use proto::session::{Backoff, Reconnect};
pub use proto::work::CloseReason;
#[cfg(feature = "iwarp")]
pub use provider::iwarp::{IwarpConnector, IwarpListener, IwarpOptions};
#[cfg(feature = "shell")]
pub use shell::*;
pub use wire::private_data::PrivateData;
