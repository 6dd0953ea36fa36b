use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::region::{Region, RegionState, Role, Spare};
use super::super::returned;
use crate::proto::call::{CallId, IncomingReply, Traffic, TransportError};
use crate::proto::work::{CloseReason, Segment};
use crate::wire::rdma::{Body, ChunkLists, ErrorBody, ReadSegment};
use crate::xdr::{Placed, Received};

/// A call with a credit.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) id: CallId,
    pub(super) phase: Phase,
    pub(super) regions: Vec<Region>,
    pub(super) write_chunks: usize,
    pub(super) traffic: Traffic,
    pub(super) abandoned: bool,
    /// Whether the call timed out after it was sent.
    pub(super) overdue: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// The call is not sent yet. `failed` is true if a registration failed.
    Registering { inline: Option<Bytes>, failed: bool },
    /// The call was sent and has no reply yet.
    Sent,
    /// The outcome is known, and the memory is being fenced.
    Fencing(Outcome),
}

/// The outcome of a call once its memory is fenced.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The chunks of the reply, and its stream unless the stream is in the Reply chunk.
    Reply {
        stream: Option<Bytes>,
        lists: ChunkLists,
    },
    Failed(TransportError),
}

impl Outcome {
    /// Returns true if part of the reply is in memory that the call offered.
    fn is_placed(&self) -> bool {
        match self {
            Outcome::Reply { stream, lists } => {
                stream.is_none() || lists.writes.iter().any(|chunk| !chunk.is_empty())
            }
            Outcome::Failed(_) => false,
        }
    }
}

impl CallState {
    pub(super) fn lists(&self, spare: &mut Spare) -> ChunkLists {
        let mut lists = spare.lists(self.write_chunks);
        for region in &self.regions {
            let RegionState::Advertised(segment) = region.state else { continue };
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

    pub(super) fn advertises(&self, handle: u32) -> bool {
        self.regions.iter().any(
            |region| matches!(region.state, RegionState::Advertised(segment) if segment.handle == handle),
        )
    }

    /// Interprets a reply's header for this call (RFC 8166 sections 4.2.4 and 4.3).
    pub(super) fn outcome(&self, body: Body, payload: Bytes) -> Outcome {
        match body {
            Body::Error(ErrorBody::Version { low, high }) => {
                Ok(Outcome::Failed(TransportError::Version { low, high }))
            }
            Body::Error(ErrorBody::Chunk) => Ok(Outcome::Failed(TransportError::Chunk)),
            Body::Msg(lists) => self.placed(lists, Some(payload)),
            Body::NoMsg(lists) => self.placed(lists, None),
        }
        .unwrap_or_else(|why| Outcome::Failed(TransportError::BadReply(why.to_string())))
    }

    fn placed(&self, lists: ChunkLists, payload: Option<Bytes>) -> Result<Outcome, &'static str> {
        if lists.writes.len() > self.write_chunks {
            return Err("a Write list with more chunks than were offered");
        }
        for (index, chunk) in lists.writes.iter().enumerate() {
            returned::check(chunk, self.offered(Role::Write(index)))?;
        }
        let mut used = false;
        if let Some(chunk) = &lists.reply {
            if !chunk.0.is_empty() && self.offered(Role::Reply).next().is_none() {
                return Err("a Reply chunk that was not offered");
            }
            returned::check(chunk, self.offered(Role::Reply))?;
            used = !chunk.is_empty();
        }
        match &payload {
            None if used => {}
            None => return Err("RDMA_NOMSG without data in the Reply chunk"),
            Some(_) if used => return Err("RDMA_MSG with data in the Reply chunk"),
            Some(stream) if stream.first_chunk() != Some(&self.id.xid().to_be_bytes()) => {
                return Err("the XIDs of the header and of the RPC message differ");
            }
            Some(_) => {}
        }
        Ok(Outcome::Reply { stream: payload, lists })
    }

    fn offered(&self, role: Role) -> impl Iterator<Item = &Segment> {
        self.regions.iter().filter(move |region| region.role == role).filter_map(|region| {
            match &region.state {
                RegionState::Advertised(segment) => Some(segment),
                _ => None,
            }
        })
    }

    /// Returns the outcome of a call whose connection ended. Memory that the provider returns when the
    /// connection ends cannot be matched to its region. A received reply is therefore lost, unless all
    /// regions were already returned or no part of the reply is in them.
    pub(super) fn into_outcome_after_close(
        self,
        reason: &CloseReason,
        spare: &mut Spare,
    ) -> Result<IncomingReply, TransportError> {
        let returned = self.regions.iter().all(|region| matches!(region.state, RegionState::Returned(_)));
        match &self.phase {
            Phase::Registering { .. } => Err(TransportError::Unsent(reason.clone())),
            Phase::Fencing(outcome) if returned || !outcome.is_placed() => self.into_outcome(spare),
            Phase::Sent | Phase::Fencing(_) => Err(TransportError::Closed(reason.clone())),
        }
    }

    pub(super) fn into_outcome(self, spare: &mut Spare) -> Result<IncomingReply, TransportError> {
        let CallState { id, phase, mut regions, write_chunks, mut traffic, .. } = self;
        let Phase::Fencing(outcome) = phase else { return Err(TransportError::Registration) };
        let (stream, lists) = match outcome {
            Outcome::Failed(reason) => return Err(reason),
            Outcome::Reply { stream, lists } => (stream, lists),
        };
        let stream = match (stream, &lists.reply) {
            (Some(stream), _) => stream,
            (None, chunk) => {
                let stream = returned::collect(&mut regions, Role::Reply, chunk.as_ref()).data;
                traffic.reply_chunk_bytes = stream.len() as u64;
                if stream.first_chunk() != Some(&id.xid().to_be_bytes()) {
                    let why = "the XIDs of the header and of the RPC message differ";
                    return Err(TransportError::BadReply(why.to_string()));
                }
                stream
            }
        };
        let item = |index| returned::collect(&mut regions, Role::Write(index), lists.writes.get(index));
        let items: Vec<_> = (0..write_chunks).map(item).collect();
        traffic.write_bytes = items.iter().map(|item| item.data.len() as u64).sum();
        let items = if items.is_empty() { Placed::None } else { Placed::InOrder(items) };
        regions.clear();
        (spare.regions, spare.lists) = (regions, lists);
        Ok(IncomingReply { message: Received { stream, items }, traffic })
    }
}
