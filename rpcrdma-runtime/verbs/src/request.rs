//! What is asked of a send queue, and what it keeps of that until it is complete.

use std::mem;

use bytes::{Bytes, BytesMut};
use ibverbs_sys as ib;
use rpcrdma_runtime::proto::work::{Segment, Token};

use super::objects::Registered;

/// Work for the send queue.
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
    },
    /// A window over memory that is advertised under this handle.
    Bind {
        handle: u32,
    },
    /// Its end.
    Unbind {
        token: Token,
        handle: u32,
    },
    /// The rest of a transfer that is longer than one message of the port.
    Rest {
        transfer: Transfer,
        at: usize,
    },
}

/// An RDMA Read or Write with the memory at this end.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) remote: Segment,
    pub(super) local: Local,
}

#[derive(Debug)]
pub(super) enum Local {
    Source(Token, Registered<Bytes>),
    Sink(Token, Registered<BytesMut>),
}

/// What was posted, until it is complete.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) done: Done,
    /// It has no completion of its own.
    pub(super) silent: bool,
    pub(super) slot: Option<usize>,
    pub(super) regions: Vec<Registered<Bytes>>,
}

#[derive(Debug)]
pub(super) enum Done {
    Sent(Token),
    Written(Token),
    Transferred(Transfer),
    /// An RDMA Read into its slot.
    Fetched {
        token: Token,
        slot: usize,
        len: usize,
    },
    /// The transfer goes on.
    Part,
    Bound,
    /// The window of this handle has ended.
    Unbound(u32),
}

/// A work request that is ready to be posted.
pub(super) struct Request {
    pub(super) raw: ib::ibv_send_wr,
    pub(super) pieces: Vec<ib::ibv_sge>,
    pub(super) posted: Posted,
    /// The device takes what is in this slot along with the request, and does not look there afterwards.
    pub(super) inline: Option<usize>,
}

impl Request {
    /// One without data.
    pub(super) fn bare(raw: ib::ibv_send_wr, done: Done) -> Self {
        let posted = Posted { done, silent: true, slot: None, regions: Vec::new() };
        Request { raw, pieces: Vec::new(), posted, inline: None }
    }
}

pub(super) fn request() -> ib::ibv_send_wr {
    // SAFETY: numbers, pointers and unions of them, and all zeros is a value of each.
    unsafe { mem::zeroed() }
}

/// Where an RDMA Read or Write goes.
pub(super) fn aim(request: &mut ib::ibv_send_wr, remote: &Segment, skip: u64) {
    request.wr.rdma.remote_addr = remote.offset.wrapping_add(skip);
    request.wr.rdma.rkey = remote.handle;
}
