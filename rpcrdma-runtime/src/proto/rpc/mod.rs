//! ONC RPC over any transport: calls that find their replies, and a table of services (RFC 5531).

mod services;
mod xids;

pub use services::Services;
pub use xids::Xids;
