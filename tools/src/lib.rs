//! The library behind the program `rpcrdma`.
//!
//! [`explain`] shows the RPC-over-RDMA conversations in a packet capture. [`info`] describes the RDMA devices
//! of this machine.

pub mod cli;
pub mod explain;
pub mod info;
