//! One call of a requester: what it advertises, and what its reply means.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::returned::{self, Lengths};
use super::plan::Role;
use super::{CallId, FailReason, Reply, Traffic};
use crate::proto::work::{CloseReason, Memory, Segment};
use crate::wire::rdma::{Body, ChunkLists, ErrorBody, ReadSegment, WriteChunk};
use crate::xdr::{Placed, Received};

/// A call that has a credit.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) id: CallId,
    pub(super) phase: Phase,
    pub(super) regions: Vec<Region>,
    pub(super) write_chunks: usize,
    pub(super) traffic: Traffic,
    /// Nobody waits for it any more.
    pub(super) abandoned: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Memory is being advertised; then the stream goes out.
    Registering { inline: Option<Bytes>, failed: bool },
    /// The call is sent.
    Waiting,
    /// The reply is here; the memory is being fenced.
    Fencing(Outcome),
}

/// How a call will end once its memory is fenced.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The stream came inline; lengths of the Write chunks.
    Inline {
        stream: Bytes,
        writes: Vec<Lengths>,
    },
    /// The stream came in the Reply chunk; its lengths, and those of the Write chunks.
    Long {
        reply: Lengths,
        writes: Vec<Lengths>,
    },
    Failed(FailReason),
}

impl Outcome {
    /// Whether something of the reply is in memory that was offered for it.
    fn is_placed(&self) -> bool {
        match self {
            Outcome::Inline { writes, .. } => writes.iter().flatten().any(|length| *length > 0),
            Outcome::Long { .. } => true,
            Outcome::Failed(_) => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) role: Role,
    pub(super) state: RegionState,
}

#[derive(Debug)]
pub(super) enum RegionState {
    Registering,
    Exposed(Segment),
    Fencing,
    Back(Option<Memory>),
}

impl CallState {
    pub(super) fn lists(&self) -> ChunkLists {
        let mut lists =
            ChunkLists { writes: vec![WriteChunk::default(); self.write_chunks], ..ChunkLists::default() };
        for region in &self.regions {
            let RegionState::Exposed(segment) = region.state else { continue };
            match region.role {
                Role::Read(position) => lists.reads.push(ReadSegment { position, segment }),
                Role::Write(index) => {
                    if let Some(chunk) = lists.writes.get_mut(index) {
                        chunk.0.push(segment);
                    }
                }
                Role::Reply => lists.reply.get_or_insert_default().0.push(segment),
            }
        }
        lists
    }

    pub(super) fn exposes(&self, handle: u32) -> bool {
        self.regions
            .iter()
            .any(|region| matches!(region.state, RegionState::Exposed(segment) if segment.handle == handle))
    }

    /// What a reply's header means for this call (RFC 8166 section 4.2.4, 4.3).
    pub(super) fn outcome(&self, body: Body, payload: Bytes) -> Outcome {
        match body {
            Body::Error(ErrorBody::Version { low, high }) => {
                Ok(Outcome::Failed(FailReason::Version { low, high }))
            }
            Body::Error(ErrorBody::Chunk) => Ok(Outcome::Failed(FailReason::Chunk)),
            Body::Msg(lists) => self.placed(&lists, Some(payload)),
            Body::NoMsg(lists) => self.placed(&lists, None),
        }
        .unwrap_or_else(|why| Outcome::Failed(FailReason::BadReply(why.to_string())))
    }

    fn placed(&self, lists: &ChunkLists, payload: Option<Bytes>) -> Result<Outcome, &'static str> {
        let offered = self.lists();
        if lists.writes.len() > offered.writes.len() {
            return Err("a Write list with more chunks than were offered");
        }
        let mut writes = Vec::with_capacity(offered.writes.len());
        let none = WriteChunk::default();
        for (index, out) in offered.writes.iter().enumerate() {
            writes.push(returned::check(lists.writes.get(index).unwrap_or(&none), out)?);
        }
        let reply = match (&lists.reply, &offered.reply) {
            (Some(back), Some(out)) => returned::check(back, out)?,
            (Some(back), None) if !back.0.is_empty() => return Err("a Reply chunk that was not offered"),
            _ => Vec::new(),
        };
        let used = reply.iter().any(|length| *length > 0);
        match payload {
            None if used => Ok(Outcome::Long { reply, writes }),
            None => Err("RDMA_NOMSG without a Reply chunk"),
            Some(_) if used => Err("RDMA_MSG with a Reply chunk in use"),
            Some(stream) if stream.first_chunk() != Some(&self.id.xid().to_be_bytes()) => {
                Err("the XIDs of the header and of the RPC message differ")
            }
            Some(stream) => Ok(Outcome::Inline { stream, writes }),
        }
    }

    /// The end of a call whose connection has ended, which has fenced its memory and does not say which is which. A reply
    /// that came before counts, if nothing of it is in that memory.
    pub(super) fn into_outcome_of_end(self, reason: &CloseReason) -> Result<Reply, FailReason> {
        let back = self.regions.iter().all(|region| matches!(region.state, RegionState::Back(_)));
        match &self.phase {
            Phase::Registering { .. } => Err(FailReason::Unsent(reason.clone())),
            Phase::Fencing(outcome) if back || !outcome.is_placed() => self.into_outcome(),
            Phase::Waiting | Phase::Fencing(_) => Err(FailReason::Closed(reason.clone())),
        }
    }

    /// The end of a call whose memory is back.
    pub(super) fn into_outcome(self) -> Result<Reply, FailReason> {
        let mut traffic = self.traffic;
        let mut regions = self.regions;
        let mut take = |role: Role, lengths: Lengths| -> Vec<(u32, Option<Memory>)> {
            let memories = regions.iter_mut().filter(|region| region.role == role).map(|region| {
                match &mut region.state {
                    RegionState::Back(memory) => memory.take(),
                    _ => None,
                }
            });
            lengths.into_iter().zip(memories).collect()
        };
        let Phase::Fencing(outcome) = self.phase else { return Err(FailReason::Registration) };
        let (stream, writes) = match outcome {
            Outcome::Failed(reason) => return Err(reason),
            Outcome::Inline { stream, writes } => (stream, writes),
            Outcome::Long { reply, writes } => {
                let stream = returned::collect(take(Role::Reply, reply));
                traffic.reply_chunk_bytes = stream.len() as u64;
                if stream.first_chunk() != Some(&self.id.xid().to_be_bytes()) {
                    let why = "the XIDs of the header and of the RPC message differ";
                    return Err(FailReason::BadReply(why.to_string()));
                }
                (stream, writes)
            }
        };
        let items: Vec<_> = (0..)
            .zip(writes)
            .map(|(index, lengths)| returned::item(take(Role::Write(index), lengths)))
            .collect();
        traffic.write_bytes = items.iter().map(|item| item.data.len() as u64).sum();
        let items = if items.is_empty() { Placed::None } else { Placed::InOrder(items) };
        Ok(Reply { message: Received { stream, items }, traffic })
    }
}
