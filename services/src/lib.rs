//! Standard services for ONC RPC: finding a server with [`rpcbind`], and exchanging connection limits with
//! [`conf`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use rpcrdma_runtime::Client;
//! use rpcrdma_services::conf;
//! use rpcrdma_services::rpcbind::{Netid, Rpcbind};
//!
//! let found = Rpcbind::of("192.0.2.1").await?.lookup(100_417, 1, Netid::Rdma).await?;
//! let client = Client::connect(found.ok_or("the program is not registered")?).await?;
//! // Only for a server without the private data of RFC 8797:
//! println!("{:?}", conf::configure(&client).await?);
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`rpcbind`] | registration and lookup of addresses (RFC 1833) |
//! | [`conf`] | connection configuration for peers without private data (RFC 5666 section 6) |

pub mod conf;
pub mod rpcbind;
