//! ONC RPC over any transport: a table of services, and what they answer (RFC 5531).

mod services;

pub use services::Services;
