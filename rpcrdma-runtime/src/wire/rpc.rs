//! ONC RPC messages (RFC 5531 section 9): headers as validated values.

mod auth;
mod call;
mod gss;
mod record;
mod reply;

pub use auth::{
    AuthStat, AuthSys, Credential, MAX_AUTH_BYTES, MAX_GIDS, MAX_MACHINE_NAME, RPCSEC_GSS, Verifier,
};
pub use call::{CallHeader, CallNumbers, CallRefusal, MessageKind, RPC_VERSION, RpcCall};
pub use gss::{GssControl, GssCredential, GssService, MAX_HANDLE, MAX_SEQUENCE};
pub use record::{RecordError, Records, record_mark};
pub(crate) use reply::versions;
pub use reply::{Reject, ReplyError, ReplyHeader, RpcReply, decode_reply, decode_verified};
