//! The details of one call.

use std::fmt;

use bytes::Bytes;
use rpcrdma_runtime::wire::rdma::{ChunkLists, Segment};
use rpcrdma_runtime::wire::rpc::{CallHeader, Credential};
use rpcrdma_runtime::xdr::Reader;

use super::values::{Codec, Parts};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The initiator.
    Client,
    /// The responder.
    Server,
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// A call, its RDMA operations, and its reply.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Its number in the capture, from 1.
    pub number: usize,
    /// The caller; in the backward direction the server.
    pub by: Option<Side>,
    /// The time of its Send, in nanoseconds since 1970.
    pub time: u64,
    /// Its XID.
    pub xid: u32,
    /// Program, version and procedure, once its RPC header was read.
    pub procedure: Option<Called>,
    /// Its arguments, abbreviated, if the program is known and they are not encrypted.
    pub arguments: Option<String>,
    /// The octets of its Send.
    pub len: usize,
    /// The RPC message is in a Position-Zero Read chunk: RDMA_NOMSG.
    pub long: bool,
    /// Requested credits.
    pub credits: u32,
    /// The memory that it offers.
    pub lists: ChunkLists,
    /// RDMA Reads and Writes of that memory, in their order.
    pub operations: Vec<Operation>,
    /// Its reply.
    pub reply: Option<Reply>,
    /// The segments of `lists` in the order of [`Place::key`].
    pub(super) places: Vec<Place>,
    /// The stated length of the Reply chunk, until the reply itself is read.
    pub(super) written: Option<Status>,
    /// Decodes its arguments and results.
    pub(super) codec: Option<&'static Codec>,
    /// What is kept of it until they are decoded.
    pub(super) parts: Parts,
    /// The number of outstanding calls in the same direction when it was made, including itself.
    pub in_flight: usize,
}

/// A segment that a call offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    segment: Segment,
    chunk: Chunk,
    /// Offset of the segment in the chunk.
    before: u64,
}

impl Place {
    /// Handle, whether it is to be read, and offset.
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

/// A procedure of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Called {
    /// Program number.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
}

/// The reply to a call, or an error of the transport in its place.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The time of its Send.
    pub time: u64,
    /// The octets of its Send.
    pub len: usize,
    /// The RPC message is in the Reply chunk: RDMA_NOMSG.
    pub long: bool,
    /// Credits granted.
    pub credits: u32,
    /// The memory that it used.
    pub lists: ChunkLists,
    /// The handle that it invalidated.
    pub invalidated: Option<u32>,
    /// Its meaning.
    pub status: Status,
    /// Its results, abbreviated, if they can be decoded.
    pub results: Option<String>,
}

/// The result of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It was not found out.
    #[default]
    Unknown,
    /// Results follow.
    Success,
    /// Results follow, and begin with this error of the program.
    Failed(String),
    /// RPC's reason for a missing result.
    Rejected(String),
    /// RPC-over-RDMA's reason for a missing reply.
    Transport(String),
}

/// A chunk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// A Read chunk by its position; at zero the message itself.
    Read(u32),
    /// A Write chunk by its position in the list, from 1.
    Write(usize),
    /// The Reply chunk.
    Reply,
}

/// An RDMA Read or Write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The time of its start.
    pub time: u64,
    /// The time of its last octet, if it was captured.
    pub done: Option<u64>,
    /// Its chunk; none if the call has no such memory.
    pub chunk: Option<Chunk>,
    /// Whether it is an RDMA Read.
    pub is_read: bool,
    /// The memory.
    pub handle: u32,
    /// The offset in it.
    pub offset: u64,
    /// Octets: of a Read, the requested ones.
    pub len: u64,
    /// Received octets.
    pub came: u64,
    /// The number of DDP segments.
    pub segments: u64,
}

impl Call {
    /// The chunk at an address, from the last segment that begins at or before it, and the offset in that
    /// chunk.
    #[must_use]
    pub fn chunk_at(&self, handle: u32, offset: u64, for_read: bool) -> Option<(Chunk, u64)> {
        let behind = self.places.partition_point(|place| place.key() <= (handle, for_read, offset));
        let Place { segment, chunk, before } = self.places.get(behind.checked_sub(1)?)?;
        let is_of = segment.handle == handle && matches!(chunk, Chunk::Read(_)) == for_read;
        let inside = offset.checked_sub(segment.offset)?;
        (is_of && inside <= u64::from(segment.length)).then_some((*chunk, before.saturating_add(inside)))
    }

    /// Takes the RPC header that its message begins with.
    pub(super) fn name(&mut self, message: &[u8]) {
        let Ok(header) = CallHeader::decode(&mut Reader::from_slice(message)) else { return };
        let CallHeader { program, version, procedure, .. } = header;
        let called = Called { program, version, procedure };
        self.procedure = Some(called);
        // What RPCSEC_GSS protects is not the procedure's own.
        let is_plain = matches!(header.credential, Credential::None | Credential::Sys(_));
        self.codec = Codec::of(called).filter(|_| is_plain);
    }

    /// Decodes the arguments, once all their data is available. Returns the length of their text.
    pub(super) fn decode_arguments(&mut self) -> usize {
        let (Some(codec), None) = (self.codec, &self.arguments) else { return 0 };
        let message = self.parts.call(&self.lists, self.long);
        self.arguments = message.and_then(|message| codec.arguments(&message));
        self.arguments.as_ref().map_or(0, String::len)
    }

    /// Returns its results: in a Send, or in its Reply chunk.
    pub(super) fn results(&self, used: &ChunkLists, inline: Option<Bytes>) -> Option<String> {
        let codec = self.codec?;
        codec.results(self.xid, &self.parts.reply(&self.lists, used, inline)?)
    }

    /// From the call's Send to the reply's, in nanoseconds.
    #[must_use]
    pub fn latency(&self) -> Option<u64> {
        Some(self.reply.as_ref()?.time.saturating_sub(self.time))
    }

    /// Octets by RDMA Read, and by RDMA Write.
    #[must_use]
    pub fn moved(&self) -> (u64, u64) {
        self.operations.iter().fold((0u64, 0u64), |(read, written), operation| match operation.is_read {
            true => (read.saturating_add(operation.came), written),
            false => (read, written.saturating_add(operation.came)),
        })
    }

    /// Whether it ended without results.
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
            Status::Rejected(why) => write!(f, "refused: {why}"),
            Status::Transport(why) => write!(f, "RDMA_ERROR: {why}"),
        }
    }
}
