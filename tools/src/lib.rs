//! The library of the programs `rpcrdma` and `nfs3bench`.
//!
//! ```no_run
//! use rpcrdma_tools::explain::{Selection, read, text};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let trace = read(std::fs::File::open("nfs.pcap")?)?;
//! text(&trace, &Selection { brief: true, ..Selection::default() }, &mut std::io::stdout())?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`explain`] | the RPC-over-RDMA conversations in a packet capture |
//! | [`info`] | the RDMA devices of this machine |
//! | [`cli`] | the command lines of `rpcrdma` and `nfs3bench` |

pub mod cli;
pub mod explain;
pub mod info;
