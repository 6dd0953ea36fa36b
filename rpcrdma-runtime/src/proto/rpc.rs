//! ONC RPC over any transport (RFC 5531): the table of services, the counters of their replies, the
//! duplicate-request cache, and RPCSEC_GSS.

pub mod duplicates;
pub mod gss;
mod outcomes;
mod services;

pub use outcomes::RpcCounts;
pub use services::Services;
