//! Programs that help other programs: how a server is found.

pub mod rpcbind;
