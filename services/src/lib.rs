//! Standard services for ONC RPC: finding a server with [`rpcbind`], and exchanging connection limits with
//! [`conf`].

pub mod conf;
pub mod rpcbind;
