//! Programs that help other programs: how a server is found, and what the ends of a connection take.

pub mod conf;
pub mod rpcbind;
