//! Placeholder for what xdrgen emits from specs/rpcrdma1.txt.
use crate::xdr::Xdr;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct XdrRdmaSegment {
    pub handle: u32,
    pub length: u32,
    pub offset: u64,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct XdrReadChunk {
    pub position: u32,
    pub target: XdrRdmaSegment,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct XdrReadList {
    pub entry: XdrReadChunk,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct XdrWriteChunk {
    pub target: Vec<XdrRdmaSegment>,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct XdrWriteList {
    pub entry: XdrWriteChunk,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct RpcRdmaHeader {
    #[xdr(list)]
    pub rdma_reads: Vec<XdrReadList>,
    #[xdr(list)]
    pub rdma_writes: Vec<XdrWriteList>,
    pub rdma_reply: Option<XdrWriteChunk>,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct RpcRdmaHeaderNomsg {
    #[xdr(list)]
    pub rdma_reads: Vec<XdrReadList>,
    #[xdr(list)]
    pub rdma_writes: Vec<XdrWriteList>,
    pub rdma_reply: Option<XdrWriteChunk>,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct RpcRdmaHeaderPadded {
    pub rdma_align: u32,
    pub rdma_thresh: u32,
    #[xdr(list)]
    pub rdma_reads: Vec<XdrReadList>,
    #[xdr(list)]
    pub rdma_writes: Vec<XdrWriteList>,
    pub rdma_reply: Option<XdrWriteChunk>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum RpcRdmaErrcode {
    Vers = 1,
    Chunk = 2,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct RpcRdmaErrvers {
    pub rdma_vers_low: u32,
    pub rdma_vers_high: u32,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate", union = "RpcRdmaErrcode")]
pub enum RpcRdmaError {
    #[xdr(case = "RpcRdmaErrcode::Vers")]
    Vers(RpcRdmaErrvers),
    #[xdr(case = "RpcRdmaErrcode::Chunk")]
    Chunk,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Xdr)]
#[xdr(crate = "crate")]
pub enum RdmaProc {
    Msg = 0,
    Nomsg = 1,
    Msgp = 2,
    Done = 3,
    Error = 4,
}
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate", union = "RdmaProc")]
pub enum RdmaBody {
    #[xdr(case = "RdmaProc::Msg")]
    Msg(RpcRdmaHeader),
    #[xdr(case = "RdmaProc::Nomsg")]
    Nomsg(RpcRdmaHeaderNomsg),
    #[xdr(case = "RdmaProc::Msgp")]
    Msgp(RpcRdmaHeaderPadded),
    #[xdr(case = "RdmaProc::Done")]
    Done,
    #[xdr(case = "RdmaProc::Error")]
    Error(RpcRdmaError),
}
pub const RPCRDMA_VERSION: u32 = 1;
#[derive(Clone, Debug, PartialEq, Xdr)]
#[xdr(crate = "crate")]
pub struct RdmaMsg {
    pub rdma_xid: u32,
    pub rdma_vers: u32,
    pub rdma_credit: u32,
    pub rdma_body: RdmaBody,
}
