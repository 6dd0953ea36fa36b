//! The details of one call.

use std::fmt;

use bytes::Bytes;
use rpcrdma_runtime::wire::rdma::{ChunkLists, Segment};
use rpcrdma_runtime::wire::rpc::{CallHeader, Credential};
use rpcrdma_runtime::xdr::Reader;

pub use super::keys::{CalledProcedure, Chunk};
use super::values::{Codec, Parts};

/// One of the two peers of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// The initiator.
    Client,
    /// The responder.
    Server,
}

impl Peer {
    /// Returns the other peer.
    #[must_use]
    pub fn other(self) -> Peer {
        match self {
            Peer::Client => Peer::Server,
            Peer::Server => Peer::Client,
        }
    }
}

/// A call, its RDMA operations, and its reply.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The call's number in its connection, counted from 1.
    pub number: usize,
    /// The caller: the client, or the server in the backward direction.
    pub by: Option<Peer>,
    /// The time of the Send, in nanoseconds since 1970.
    pub time: u64,
    /// The XID.
    pub xid: u32,
    /// Program, version and procedure, if the RPC header could be decoded.
    pub procedure: Option<CalledProcedure>,
    /// The abbreviated arguments or a decoding error. `None` if the call has no arguments, or if its RPC
    /// header is unreadable. Also `None` if the procedure is unknown, the credential is neither AUTH_NONE nor
    /// AUTH_SYS, or the stored data would exceed a limit.
    pub arguments: Option<String>,
    /// The length of the Send, in bytes.
    pub len: usize,
    /// True if the RPC message is in a Position-Zero Read chunk (RDMA_NOMSG).
    pub long: bool,
    /// Requested credits.
    pub credits: u32,
    /// The chunks that the call offers.
    pub lists: ChunkLists,
    /// The RDMA Reads and Writes that use the handles in `lists`, in order.
    pub operations: Vec<Operation>,
    /// The reply, if it was captured.
    pub reply: Option<Reply>,
    /// The segments of `lists` in the order of [`Place::key`].
    pub(super) places: Vec<Place>,
    /// The status in the RPC message that was written to the Reply chunk, until the Send of the reply
    /// arrives.
    pub(super) written: Option<Status>,
    pub(super) codec: Option<&'static Codec>,
    /// The stored data of the arguments and results, until the reply arrives.
    pub(super) parts: Parts,
    /// The number of outstanding calls in the same direction at the time of this call, including this call.
    pub outstanding: usize,
}

/// A segment that a call offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    segment: Segment,
    chunk: Chunk,
    /// The offset of the segment in the chunk.
    before: u64,
}

impl Place {
    /// Returns the sort key: the handle, true for a Read chunk, and the offset.
    fn key(&self) -> (u32, bool, u64) {
        (self.segment.handle, matches!(self.chunk, Chunk::Read(_)), self.segment.offset)
    }

    /// Returns the segments of all chunks, sorted for fast lookups.
    pub(super) fn all(lists: &ChunkLists) -> Vec<Place> {
        let reads = lists.reads.iter().map(|read| (&read.segment, Chunk::Read(read.position)));
        let numbered = lists.writes.iter().zip(1..);
        let writes = numbered
            .flat_map(|(chunk, number)| chunk.0.iter().map(move |segment| (segment, Chunk::Write(number))));
        let reply = lists.reply.iter().flat_map(|chunk| &chunk.0).map(|segment| (segment, Chunk::Reply));
        let mut end = (Chunk::Reply, 0u64);
        let place = |(segment, chunk): (&Segment, Chunk)| {
            let before = if end.0 == chunk { end.1 } else { 0 };
            end = (chunk, before.saturating_add(segment.length.into()));
            Place { segment: *segment, chunk, before }
        };
        let mut places: Vec<Place> = reads.chain(writes).chain(reply).map(place).collect();
        places.sort_by_key(Place::key);
        places
    }
}

/// The reply to a call, or the RDMA_ERROR message sent instead.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The time of the Send, in nanoseconds since 1970.
    pub time: u64,
    /// The length of the Send, in bytes.
    pub len: usize,
    /// True if the RPC message is in the Reply chunk (RDMA_NOMSG).
    pub long: bool,
    /// Granted credits.
    pub credits: u32,
    /// The chunks in the reply's header, with the lengths that the reply used.
    pub lists: ChunkLists,
    /// The handle that the reply invalidated, if any.
    pub invalidated: Option<u32>,
    /// The status.
    pub status: Status,
    /// The abbreviated results or a decoding error. `None` if the reply has no results, rejects the call, or
    /// has an unreadable RPC header. Also `None` if the procedure is unknown, the credential is neither
    /// AUTH_NONE nor AUTH_SYS, or the stored data would exceed a limit.
    pub results: Option<String>,
}

/// The status of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// The reply could not be decoded.
    #[default]
    Unknown,
    /// RPC accepted the call, and the results report no error.
    Success,
    /// The results begin with this error, which the RPC program defines.
    Failed(String),
    /// RPC rejected the call for this reason.
    Rejected(String),
    /// RPC-over-RDMA rejected the call for this reason.
    Transport(String),
}

/// An RDMA Read or Write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The start time, in nanoseconds since 1970.
    pub time: u64,
    /// The time of the last captured byte, or `None` if no response to an RDMA Read was captured.
    pub done: Option<u64>,
    /// The chunk, or `None` if the call offered no chunk at this address.
    pub chunk: Option<Chunk>,
    /// True for an RDMA Read.
    pub is_read: bool,
    /// The handle of the memory.
    pub handle: u32,
    /// The offset in the memory.
    pub offset: u64,
    /// The length in bytes. For a Read, the requested length.
    pub len: u64,
    /// The number of received bytes.
    pub received: u64,
    /// The number of DDP segments.
    pub segments: u64,
}

impl Call {
    /// Returns the chunk that contains the address `offset` in the memory with this handle, and the offset of
    /// the address in the chunk, if any. If `for_read` is true, considers only Read chunks. Otherwise,
    /// considers only Write chunks and the Reply chunk. Of the segments of these chunks with this handle,
    /// considers only the last that starts at or before the address. The address just past the end of a
    /// segment also counts as inside.
    #[must_use]
    pub fn chunk_at(&self, handle: u32, offset: u64, for_read: bool) -> Option<(Chunk, u64)> {
        let behind = self.places.partition_point(|place| place.key() <= (handle, for_read, offset));
        let Place { segment, chunk, before } = self.places.get(behind.checked_sub(1)?)?;
        let is_of = segment.handle == handle && matches!(chunk, Chunk::Read(_)) == for_read;
        let inside = offset.checked_sub(segment.offset)?;
        (is_of && inside <= u64::from(segment.length)).then_some((*chunk, before.saturating_add(inside)))
    }

    /// Sets the procedure and its codec from the RPC header at the start of the message, if valid.
    pub(super) fn name(&mut self, message: &[u8]) {
        let Ok(header) = CallHeader::decode(&mut Reader::from_slice(message)) else { return };
        let CallHeader { program, version, procedure, .. } = header;
        let called = CalledProcedure { program, version, procedure };
        self.procedure = Some(called);
        // RPCSEC_GSS wraps protected arguments, so the procedure's codec does not apply.
        let is_plain = matches!(header.credential, Credential::None | Credential::Sys(_));
        self.codec = Codec::of(called).filter(|_| is_plain);
    }

    /// Decodes the arguments unless they are already decoded. Returns the length of the new text.
    pub(super) fn decode_arguments(&mut self) -> usize {
        let (Some(codec), None) = (self.codec, &self.arguments) else { return 0 };
        let message = self.parts.call(&self.lists, self.long);
        self.arguments = message.and_then(|message| codec.arguments(&message));
        self.arguments.as_ref().map_or(0, String::len)
    }

    /// Returns the results as text, if available. `inline` is the RPC message in the Send. If `inline` is
    /// `None`, decodes the message in the Reply chunk.
    pub(super) fn results(&self, used: &ChunkLists, inline: Option<Bytes>) -> Option<String> {
        let codec = self.codec?;
        codec.results(self.xid, &self.parts.reply(&self.lists, used, inline)?)
    }

    /// Returns the time from the Send of the call to the Send of the reply, in nanoseconds, or `None` without
    /// a reply.
    #[must_use]
    pub fn latency(&self) -> Option<u64> {
        Some(self.reply.as_ref()?.time.saturating_sub(self.time))
    }

    /// Returns the number of bytes moved by RDMA Read, and the number of bytes moved by RDMA Write.
    #[must_use]
    pub fn rdma_bytes(&self) -> (u64, u64) {
        self.operations.iter().fold((0u64, 0u64), |(read, written), operation| match operation.is_read {
            true => (read.saturating_add(operation.received), written),
            false => (read, written.saturating_add(operation.received)),
        })
    }

    /// Returns true if the reply reports a failure.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let status = self.reply.as_ref().map(|reply| &reply.status);
        matches!(status, Some(Status::Failed(_) | Status::Rejected(_) | Status::Transport(_)))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Unknown => f.write_str("?"),
            Status::Success => f.write_str("OK"),
            Status::Failed(why) => f.write_str(why),
            Status::Rejected(why) => write!(f, "rejected: {why}"),
            Status::Transport(why) => write!(f, "RDMA_ERROR: {why}"),
        }
    }
}
