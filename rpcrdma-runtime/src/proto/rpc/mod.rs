//! ONC RPC over any transport: a table of services, and what they answer (RFC 5531); which calls were answered before;
//! RPCSEC_GSS.

pub mod duplicates;
pub mod gss;
mod outcomes;
mod services;

pub use outcomes::RpcCounts;
pub use services::Services;
