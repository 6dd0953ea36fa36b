//! Emitted by xdrgen.
#![allow(missing_docs)]
pub mod rpc_msg;
pub mod rpcrdma1;
