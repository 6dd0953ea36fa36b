//! ONC RPC over any transport: a table of services, and what they answer (RFC 5531); which calls were answered before.

pub mod duplicates;
mod outcomes;
mod services;

pub use outcomes::RpcCounts;
pub use services::Services;
