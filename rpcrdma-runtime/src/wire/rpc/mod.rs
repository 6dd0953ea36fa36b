//! ONC RPC messages (RFC 5531 section 9): headers as checked values.

mod auth;
mod call;
mod record;
mod reply;

pub use auth::{AuthStat, AuthSys, Credential, MAX_AUTH_BYTES, MAX_GIDS, MAX_MACHINE_NAME};
pub use call::{CallHeader, CallRefusal, RPC_VERSION};
pub use record::{RecordError, Records, record_mark};
pub use reply::{Reject, ReplyError, ReplyHeader, decode_reply};
