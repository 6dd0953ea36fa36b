//! Work for the send queue, and the state of posted work requests until their completion.

use std::mem;

use bytes::{Bytes, BytesMut};
use ibverbs_sys as ib;
use rpcrdma_runtime::proto::work::{RegionPart, Segment, Token};

use super::objects::Registered;

#[derive(Debug)]
pub(super) enum Work {
    Send {
        token: Token,
        message: Vec<Bytes>,
        invalidate: Option<u32>,
    },
    Write {
        token: Token,
        sink: Segment,
        data: Bytes,
    },
    Read {
        token: Token,
        source: Segment,
        part: RegionPart,
    },
    Bind {
        handle: u32,
    },
    Unbind {
        token: Token,
        handle: u32,
    },
    /// Checks that the peer is alive: an empty RDMA Write, which the peer's device acknowledges.
    Probe,
    /// The rest of a transfer, from offset `at` to the end. The local memory is registered. A transfer that
    /// exceeds the port's maximum message length is posted in parts.
    Rest {
        transfer: Transfer,
        at: usize,
    },
}

/// An RDMA Read or Write with its local memory.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) remote: Segment,
    pub(super) local: Local,
}

#[derive(Debug)]
pub(super) enum Local {
    Source(Token, Registered<Bytes>),
    /// A part of a sink. The field `sink` is the number of the sink, counted from 0 for each connection.
    Sink {
        token: Token,
        sink: u64,
        part: RegionPart,
    },
}

/// A transfer whose local memory is registered. The second element is the new sink of an RDMA Read, or
/// `None` for an RDMA Write.
pub(super) type Registration = (Transfer, Option<Registered<BytesMut>>);

/// A posted work request, with the slot and the regions that are released when it completes.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) done: Done,
    /// The length of the request's data, in octets. 0 until the request is posted.
    pub(super) octets: u64,
    /// True if the work request generates no completion.
    pub(super) unsignaled: bool,
    pub(super) slot: Option<usize>,
    pub(super) regions: Vec<Registered<Bytes>>,
}

/// The effect of a completed work request.
#[derive(Debug)]
pub(super) enum Done {
    Sent(Token),
    Written(Token),
    Transferred(Transfer),
    /// An RDMA Read into a slot.
    Fetched {
        token: Token,
        slot: usize,
        len: usize,
    },
    /// A part of a transfer, but not the last.
    Part,
    Bound,
    Probed,
    /// The window with this handle is invalidated.
    Unbound(u32),
}

pub(super) struct WorkRequest {
    pub(super) raw: ib::ibv_send_wr,
    pub(super) sges: Vec<ib::ibv_sge>,
    pub(super) posted: Posted,
    /// The slot that contains the inline data. The slot is released as soon as the request is posted.
    pub(super) inline: Option<usize>,
}

impl WorkRequest {
    pub(super) fn without_data(raw: ib::ibv_send_wr, done: Done) -> Self {
        let posted = Posted { done, octets: 0, unsignaled: true, slot: None, regions: Vec::new() };
        WorkRequest { raw, sges: Vec::new(), posted, inline: None }
    }
}

pub(super) fn request() -> ib::ibv_send_wr {
    // SAFETY: the structure contains only integers, raw pointers and unions of them, so all zeros is a valid
    // value.
    unsafe { mem::zeroed() }
}

pub(super) fn set_remote(request: &mut ib::ibv_send_wr, remote: &Segment, skip: u64) {
    request.wr.rdma.remote_addr = remote.offset.wrapping_add(skip);
    request.wr.rdma.rkey = remote.handle;
}
