//! ONC RPC over RPC-over-RDMA version 1 (RFC 8166) and over TCP: clients, servers, and the XDR types of their
//! messages.
//!
//! `rpcrdma-xdrgen` compiles a program from its document. A program can also be written by hand. This example
//! serves and calls a program of the generated crate `rpcrdma-conf`:
//!
//! ```
//! use rpcrdma_conf::{ConfigRdmaReply as Reply, ConfigRdmaReq as Request, vers1};
//! use rpcrdma_runtime::program::{CallContext, Reject};
//! use rpcrdma_runtime::{Client, Server};
//!
//! struct Sizes;
//!
//! impl vers1::Handler for Sizes {
//!     async fn conf_rdma(&self, _: &CallContext, request: Request) -> Result<Reply, Reject> {
//!         let maxcall_sendsize = request.maxcall_sendsize.min(4096);
//!         Ok(Reply { maxcall_sendsize, align: 0, maxrdmaread: 16 })
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::bind("127.0.0.1:0").await?.service(vers1::Server(Sizes));
//!     let address = server.local_addr()?;
//!     tokio::spawn(server.run(std::future::pending()));
//!
//!     let client = vers1::Client(Client::connect(address).await?);
//!     let request = Request { maxcall_sendsize: 65_536, maxreply_sendsize: 65_536, maxrdmaread: 16 };
//!     assert_eq!(client.conf_rdma(&request).await?.maxcall_sendsize, 4096);
//!     Ok(())
//! }
//! ```
//!
//! A `Reducer` separates DDP-eligible data from its message without a copy, so that RDMA can transfer the
//! data directly:
//!
//! ```
//! use rpcrdma_runtime::xdr::{Encode, Opaque, Reducer, Xdr, XdrString, from_bytes, to_bytes};
//!
//! #[derive(Clone, Debug, PartialEq, Xdr)]
//! struct Pair {
//!     key: XdrString<64>,
//!     #[ddp_eligible]
//!     value: Opaque,
//! }
//!
//! # fn main() -> Result<(), rpcrdma_runtime::xdr::Error> {
//! let pair = Pair { key: "k".into(), value: vec![7; 100_000].into() };
//! assert_eq!(from_bytes::<Pair>(&to_bytes(&pair)?)?, pair);
//!
//! let mut reducer = Reducer::new(1024);
//! pair.encode(&mut reducer)?;
//! let message = reducer.into_message();
//! assert_eq!((message.stream.len(), message.items.len()), (12, 1));
//! assert_eq!(message.items[0].data.as_ptr(), pair.value.as_ptr());
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | call a program | [`Client`], [`TcpClient`] |
//! | serve programs | [`Server`], with its [`Limits`] |
//! | write a program by hand | [`program`] |
//! | define types | [`xdr`] and its derive |
//! | add a transport | [`provider`] |
//! | use the wire formats or the protocol engines alone | [`wire`], [`proto`] |
//!
//! # Features
//!
//! | Feature     | Default | Adds |
//! |-------------|---------|------|
//! | `shell`     | yes     | `Client` and `Server` over tokio; implies `iwarp` |
//! | `iwarp`     | yes     | the provider traits, and iWARP in user space; implies `std` |
//! | `std`       | yes     | RPCSEC_GSS for servers, and hardware-accelerated CRC32C |
//! | `capture`   | no      | pcap files of iWARP traffic: `RPCRDMA_PCAP` and `IwarpOptions::capture` |
//! | `metrics`   | no      | client and server metrics through the `metrics` crate |
//! | `serde`     | no      | `serde` traits for the XDR types |
//! | `arbitrary` | no      | the `Arbitrary` trait for the XDR types |
//!
//! A separate crate, `rpcrdma-verbs`, supports RDMA devices.
//!
//! Without features, the crate is `no_std` with `alloc`, and contains the codec, the wire formats and the
//! protocol engines.
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
#[cfg(feature = "iwarp")]
pub use provider::iwarp::{IwarpConnector, IwarpOptions};
#[cfg(feature = "shell")]
pub use shell::*;
