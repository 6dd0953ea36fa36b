//! Placeholder for what xdrgen emits from specs/rpc.txt.
use crate::xdr::{Opaque, Xdr, XdrString};
use alloc::vec::Vec;

pub const RPC_VERSION: u32 = 2;
pub const MAX_AUTH_BYTES: u32 = 400;
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct OpaqueAuth {
    pub flavor: i32,
    pub body: Opaque<MAX_AUTH_BYTES>,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct AuthsysParms {
    pub stamp: u32,
    pub machinename: XdrString<255>,
    pub uid: u32,
    pub gid: u32,
    #[xdr(max = 16)]
    pub gids: Vec<u32>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum MsgType {
    Call = 0,
    Reply = 1,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum ReplyStat {
    Accepted = 0,
    Denied = 1,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum AcceptStat {
    Success = 0,
    ProgUnavail = 1,
    ProgMismatch = 2,
    ProcUnavail = 3,
    GarbageArgs = 4,
    SystemErr = 5,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum RejectStat {
    RpcMismatch = 0,
    AuthError = 1,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum AuthStat {
    AuthOk = 0,
    AuthBadcred = 1,
    AuthRejectedcred = 2,
    AuthBadverf = 3,
    AuthRejectedverf = 4,
    AuthTooweak = 5,
    AuthInvalidresp = 6,
    AuthFailed = 7,
    AuthKerbGeneric = 8,
    AuthTimeexpire = 9,
    AuthTktFile = 10,
    AuthDecode = 11,
    AuthNetAddr = 12,
    RpcsecGssCredproblem = 13,
    RpcsecGssCtxproblem = 14,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct CallBody {
    pub rpcvers: u32,
    pub prog: u32,
    pub vers: u32,
    pub proc: u32,
    pub cred: OpaqueAuth,
    pub verf: OpaqueAuth,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct VersionRange {
    pub low: u32,
    pub high: u32,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate", union = "AcceptStat")]
pub enum AcceptedBody {
    #[xdr(case = "AcceptStat::Success")]
    Success,
    #[xdr(case = "AcceptStat::ProgMismatch")]
    ProgMismatch(VersionRange),
    #[xdr(default)]
    Default(AcceptStat),
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct AcceptedReply {
    pub verf: OpaqueAuth,
    pub reply_data: AcceptedBody,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate", union = "RejectStat")]
pub enum RejectedReply {
    #[xdr(case = "RejectStat::RpcMismatch")]
    RpcMismatch(VersionRange),
    #[xdr(case = "RejectStat::AuthError")]
    AuthError(AuthStat),
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate", union = "ReplyStat")]
pub enum ReplyBody {
    #[xdr(case = "ReplyStat::Accepted")]
    Accepted(AcceptedReply),
    #[xdr(case = "ReplyStat::Denied")]
    Denied(RejectedReply),
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate", union = "MsgType")]
pub enum RpcBody {
    #[xdr(case = "MsgType::Call")]
    Call(CallBody),
    #[xdr(case = "MsgType::Reply")]
    Reply(ReplyBody),
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct RpcMsg {
    pub xid: u32,
    pub body: RpcBody,
}
