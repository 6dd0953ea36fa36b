//! What an engine asks of a provider, and what it hears.
//!
//! Engines never call a provider: they yield [`Action`]s and take [`Completion`]s. So the protocol runs
//! the same over every provider, and in a simulation.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Bytes, BytesMut};

pub use crate::wire::rdma::Segment;

/// Names one piece of work. The engine chooses it; the completion carries it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Memory that is advertised to the peer. It moves to the provider by value and comes back with
/// [`Completion::Invalidated`] or [`Completion::Closed`]; between the two nobody here can look at a sink.
#[derive(Debug)]
pub enum Memory {
    /// The peer may read it (RDMA Read), nothing else.
    Source(Bytes),
    /// The peer may write it (RDMA Write), nothing else. Its capacity is what is advertised, and its length
    /// how far it has been written.
    Sink(BytesMut),
}

impl Memory {
    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Memory::Source(data) => data.len(),
            Memory::Sink(data) => data.capacity(),
        }
    }

    /// Zeroes what has not been written, for a provider that places by address.
    pub fn initialize(&mut self) {
        if let Memory::Sink(data) = self {
            data.resize(data.capacity(), 0);
        }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an engine asks of a provider. Work leaves in the order in which it is asked for.
#[derive(Debug)]
pub enum Action {
    /// Post this many more Receives; each takes one Send of at most the connection's receive size.
    PostReceives {
        /// How many more.
        count: u32,
    },
    /// Send one message. Completes with [`Completion::Sent`].
    Send {
        /// Comes back with the completion.
        token: Token,
        /// The message in pieces, sent as one.
        message: Vec<Bytes>,
        /// The peer's handle that this Send invalidates (Send with Invalidate).
        invalidate: Option<u32>,
    },
    /// Advertise memory. Completes with [`Completion::Registered`] or [`Completion::RegisterFailed`].
    Register {
        /// Comes back with the completion.
        token: Token,
        /// What to advertise.
        memory: Memory,
    },
    /// Fence memory: once this completes no peer can reach it. Also asked for when the peer has
    /// invalidated the handle itself, to have the memory back. Completes with [`Completion::Invalidated`].
    Invalidate {
        /// Comes back with the completion.
        token: Token,
        /// The handle of the memory.
        handle: u32,
    },
    /// Fence a sink that the peer may still use: its memory is freed, and what the peer writes to it is
    /// dropped. The handle stays valid until [`Action::Invalidate`], which gives back no memory. It has no
    /// completion, and is only for providers with
    /// `ConnectionInfo::local_fence`.
    Abandon {
        /// The handle of the sink.
        handle: u32,
    },
    /// RDMA Read of the peer's memory. Completes with [`Completion::ReadDone`].
    Read {
        /// Comes back with the completion.
        token: Token,
        /// What to read: `length` bytes.
        source: Segment,
    },
    /// RDMA Write into the peer's memory. It is placed before any Send asked for after it.
    /// Completes with [`Completion::Written`].
    Write {
        /// Comes back with the completion.
        token: Token,
        /// Where to: `length` equals the data's length.
        sink: Segment,
        /// What.
        data: Bytes,
    },
    /// Close the connection. [`Completion::Closed`] follows, and nothing after it.
    Close {
        /// Why.
        reason: CloseReason,
    },
}

/// What an engine hears of a provider.
#[derive(Debug)]
pub enum Completion {
    /// Memory is advertised under this segment: the peer reaches it once it has a message that is asked for after this.
    Registered {
        /// Of the [`Action::Register`].
        token: Token,
        /// Handle, length and offset to put in a chunk.
        segment: Segment,
    },
    /// Memory could not be advertised and comes back.
    RegisterFailed {
        /// Of the [`Action::Register`].
        token: Token,
        /// The memory.
        memory: Memory,
    },
    /// Memory is fenced and comes back.
    Invalidated {
        /// Of the [`Action::Invalidate`].
        token: Token,
        /// The handle, now without meaning.
        handle: u32,
        /// The memory.
        memory: Memory,
    },
    /// A Send of the peer arrived. One posted Receive is used up.
    Received {
        /// The whole message.
        message: Bytes,
        /// Our handle that it invalidated (Send with Invalidate).
        invalidated: Option<u32>,
    },
    /// A Send left and its buffers are free.
    Sent {
        /// Of the [`Action::Send`].
        token: Token,
    },
    /// An RDMA Read is done.
    ReadDone {
        /// Of the [`Action::Read`].
        token: Token,
        /// The peer's bytes, as many as were asked for.
        data: Bytes,
    },
    /// An RDMA Write left and its buffer is free.
    Written {
        /// Of the [`Action::Write`].
        token: Token,
    },
    /// The connection is gone. It is the last completion: all that is outstanding has failed with it,
    /// and all memory was fenced before.
    Closed {
        /// Why.
        reason: CloseReason,
        /// Memory that was still advertised.
        returned: Vec<Memory>,
    },
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Our side was done with it.
    Local,
    /// The peer closed it.
    Peer,
    /// The peer broke a rule: which, in words, with the requirement's id where there is one.
    Violation(String),
    /// The peer's Terminate message (RFC 5040 section 4.8).
    Terminated {
        /// 0 RDMAP, 1 DDP, 2 LLP.
        layer: u8,
        /// Error type within the layer.
        etype: u8,
        /// Error code within the type.
        code: u8,
    },
    /// The peer took too long: at what.
    Timeout(String),
    /// The operating system's word.
    Io(String),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Local => f.write_str("closed by this side"),
            CloseReason::Peer => f.write_str("closed by the peer"),
            CloseReason::Violation(what) => write!(f, "the peer broke the protocol: {what}"),
            CloseReason::Terminated { layer, etype, code } => {
                write!(f, "the peer terminated the stream (layer {layer}, type {etype}, code {code:#04x})")
            }
            CloseReason::Timeout(what) => write!(f, "timed out: {what}"),
            CloseReason::Io(what) => write!(f, "the connection failed: {what}"),
        }
    }
}
