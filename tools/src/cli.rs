//! The command lines of the programs `rpcrdma` and `nfs3bench`.
//!
//! The command lines are part of the library, so that man pages and shell completions can be rendered from
//! them.

pub mod nfs3bench;
pub mod rpcrdma;
