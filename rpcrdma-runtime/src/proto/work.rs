//! The interface between an engine and a provider.
//!
//! Engines never call a provider: they emit [`Action`]s and handle [`Completion`]s. The protocol therefore
//! behaves identically with every provider and in a simulation.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Bytes, BytesMut};

pub use crate::wire::rdma::Segment;

/// Identifies an action. The engine chooses the token, and the completion returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Memory that is advertised to the peer. The memory moves to the provider by value and returns with
/// [`Completion::RegisterFailed`], [`Completion::Invalidated`] or [`Completion::Closed`]. Until then, the
/// engine cannot read a sink. [`Action::Abandon`] frees a sink early.
#[derive(Debug)]
pub enum Memory {
    /// Memory that the peer may only read (RDMA Read).
    Source(Bytes),
    /// Memory that the peer may only write (RDMA Write). Its capacity is advertised, and its length
    /// covers the written bytes.
    Sink(BytesMut),
}

impl Memory {
    /// Returns the size of the memory in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Memory::Source(data) => data.len(),
            Memory::Sink(data) => data.capacity(),
        }
    }

    /// Extends a sink to its capacity with zeros, for a provider that places data by address.
    pub fn initialize(&mut self) {
        if let Memory::Sink(data) = self {
            data.resize(data.capacity(), 0);
        }
    }

    /// Returns true if the size of the memory is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A request from an engine to a provider. The provider transmits Sends, RDMA Writes and RDMA Read Requests
/// in the order of submission.
#[derive(Debug)]
pub enum Action {
    /// Post `count` more Receives. Each accepts one Send of at most the connection's receive size.
    PostReceives {
        /// The number of additional Receives.
        count: u32,
    },
    /// Send one message. Completes with [`Completion::Sent`].
    Send {
        /// Returned in the completion.
        token: Token,
        /// The pieces of the message, in order.
        message: Vec<Bytes>,
        /// The peer's handle that this Send invalidates (Send with Invalidate).
        invalidate: Option<u32>,
    },
    /// Advertise memory. Completes with [`Completion::Registered`] or [`Completion::RegisterFailed`].
    Register {
        /// Returned in the completion.
        token: Token,
        /// The memory to advertise.
        memory: Memory,
    },
    /// Fence memory: after the completion, the peer cannot access it. Engines also submit this action after
    /// the peer has invalidated the handle, to reclaim the memory. Completes with
    /// [`Completion::Invalidated`].
    Invalidate {
        /// Returned in the completion.
        token: Token,
        /// The handle of the memory.
        handle: u32,
    },
    /// Fence a sink that the peer may still use: its memory is freed, and later writes by the peer are
    /// dropped. The handle stays valid until [`Action::Invalidate`], which then returns empty memory. This
    /// action has no completion and requires `ConnectionInfo::local_fence`.
    Abandon {
        /// The handle of the sink.
        handle: u32,
    },
    /// Read the peer's memory into part of a region that the provider allocates. The Reads of a region
    /// are requested in sequence, from its first byte to its last. Each completes with
    /// [`Completion::ReadDone`].
    Read {
        /// Returned in the completion.
        token: Token,
        /// The memory to read: `length` bytes.
        source: Segment,
        /// The part to fill.
        part: RegionPart,
    },
    /// Write into the peer's memory. The data is placed before any later Send is delivered. Completes with
    /// [`Completion::Written`].
    Write {
        /// Returned in the completion.
        token: Token,
        /// The destination. Its `length` equals the length of `data`.
        sink: Segment,
        /// The data to write.
        data: Bytes,
    },
    /// Close the connection. [`Completion::Closed`] follows as the last completion.
    Close {
        /// The reason.
        reason: CloseReason,
    },
}

impl Action {
    /// Returns a single RDMA Read that fills a whole region.
    #[must_use]
    pub fn read(token: Token, source: Segment) -> Self {
        Action::Read { token, source, part: RegionPart { offset: 0, total: u64::from(source.length) } }
    }
}

/// The part of a region that an RDMA Read fills. The part has the same length as the memory that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPart {
    /// The offset in the region, in bytes.
    pub offset: u64,
    /// The size of the region, in bytes.
    pub total: u64,
}

impl RegionPart {
    /// Returns true if this part, with `length` bytes, is the last of its region.
    #[must_use]
    pub fn is_last(&self, length: u32) -> bool {
        self.offset.checked_add(u64::from(length)) == Some(self.total)
    }
}

/// A result that a provider reports to an engine.
///
/// Sends and RDMA Writes complete in the order of their submission, and so do RDMA Reads among themselves. A
/// Read that waits for its response may be overtaken by later Sends and Writes. Engines rely only on the
/// order of Sends.
#[derive(Debug)]
pub enum Completion {
    /// Memory is registered. Messages that are submitted after this completion can advertise its segment.
    Registered {
        /// The token of the [`Action::Register`].
        token: Token,
        /// The handle, length and offset to put in a chunk.
        segment: Segment,
    },
    /// Memory could not be advertised and is returned.
    RegisterFailed {
        /// The token of the [`Action::Register`].
        token: Token,
        /// The memory.
        memory: Memory,
    },
    /// Memory is fenced and returned.
    Invalidated {
        /// The token of the [`Action::Invalidate`].
        token: Token,
        /// The invalidated handle.
        handle: u32,
        /// The memory, which is empty if the sink was abandoned.
        memory: Memory,
    },
    /// A Send from the peer arrived and consumed one posted Receive.
    Received {
        /// The complete message.
        message: Bytes,
        /// The local handle that the Send invalidated (Send with Invalidate).
        invalidated: Option<u32>,
    },
    /// A Send completed and its buffers are free.
    Sent {
        /// The token of the [`Action::Send`].
        token: Token,
    },
    /// An RDMA Read completed.
    ReadDone {
        /// The token of the [`Action::Read`].
        token: Token,
        /// The complete region if this was the last Read of the region, otherwise empty.
        data: Bytes,
    },
    /// An RDMA Write was sent and its buffer is free.
    Written {
        /// The token of the [`Action::Write`].
        token: Token,
    },
    /// The connection is closed. This is the last completion: all outstanding work has failed, and all memory
    /// is fenced.
    Closed {
        /// The reason.
        reason: CloseReason,
        /// Memory that no earlier completion returned.
        returned: Vec<Memory>,
    },
}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The connection was closed locally.
    Local,
    /// The peer closed the connection.
    Peer,
    /// The peer violated the protocol. The text describes the violation.
    Violation(String),
    /// The peer sent a Terminate message (RFC 5040 section 4.8).
    Terminated {
        /// The layer that detected the error: 0 for RDMAP, 1 for DDP, 2 for the LLP.
        layer: u8,
        /// The error type within the layer.
        etype: u8,
        /// The error code within the type.
        code: u8,
    },
    /// The peer timed out. The text describes the timeout.
    Timeout(String),
    /// A local failure, usually an operating system error. The text describes the failure.
    Io(String),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Local => f.write_str("closed locally"),
            CloseReason::Peer => f.write_str("closed by the peer"),
            CloseReason::Violation(what) => write!(f, "the peer violated the protocol: {what}"),
            CloseReason::Terminated { layer, etype, code } => {
                write!(f, "the peer terminated the stream (layer {layer}, type {etype}, code {code:#04x})")
            }
            CloseReason::Timeout(what) => write!(f, "timed out: {what}"),
            CloseReason::Io(what) => write!(f, "the connection failed: {what}"),
        }
    }
}
