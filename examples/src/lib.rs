//! NFS version 3 over RPC-over-RDMA, as an example of what the other crates are for: file systems to serve,
//! the server's procedures over them, and a client.

pub mod client;
pub mod explain;
pub mod export;
pub mod info;
pub mod nfs;
pub mod output;
