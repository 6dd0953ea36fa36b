//! Chooses the form of a call: inline, with Read chunks, or as a Long call (RFC 8166 section 3.5).

use alloc::vec::Vec;
use core::mem;

use bytes::{Bytes, BytesMut};

use super::super::LongCall;
use super::super::region::{Region, RegionState, Role, Spare};
use super::OutgoingCall;
use crate::proto::call::Unsendable;
use crate::proto::rdma::ReplyResources;
use crate::proto::work::Memory;
use crate::wire::rdma::{ChunkLists, MessageLimits};
use crate::xdr::Item;

#[derive(Debug)]
pub(super) struct Plan {
    /// The inline Payload stream, or `None` for a Long call.
    pub(super) inline: Option<Bytes>,
    /// The memory to advertise, in the order of the chunk lists.
    pub(super) regions: Vec<Region>,
    pub(super) write_chunks: usize,
}

pub(super) struct Planner {
    /// The maximum size of a Long call's Send.
    pub(super) threshold: u32,
    /// The maximum size of any other call's Send: the negotiated size, or the limit that results from the
    /// responder's announcement (RFC 5666 section 6.2).
    pub(super) inline: u32,
    /// Whether the call may have Read chunks.
    pub(super) reads: bool,
    /// The maximum size of the reply's Send, which contains the returned chunk lists.
    pub(super) reply_threshold: u32,
    pub(super) max_segment: u32,
    pub(super) long_call: LongCall,
    /// Limits on the number of segments and the number of Write chunks. The same limits apply to the reply,
    /// which returns the offered chunks.
    pub(super) limits: MessageLimits,
}

impl Planner {
    pub(super) fn plan(&self, call: OutgoingCall, spare: &mut Spare) -> Result<Plan, Unsendable> {
        let OutgoingCall { message, reply } = call;
        let write_segments = reply.write_chunks.iter().map(|len| self.segments(u64::from(*len)));
        let writes = (reply.write_chunks.len() as u64, write_segments.fold(0, u64::saturating_add));
        let reply_segments = reply.reply_chunk.map(|len| self.segments(u64::from(len)));
        let header = |reads: u64| ChunkLists::header_len_for(reads, writes, reply_segments);
        let offered = writes.1.saturating_add(reply_segments.unwrap_or(0));
        let max_segments = self.limits.max_segments as u64;
        let within_limits = |reads: u64| offered.saturating_add(reads) <= max_segments;
        let too_many =
            |reads: u64| Unsendable::Segments { segments: offered.saturating_add(reads), max: max_segments };
        if !within_limits(0) {
            return Err(too_many(0));
        }
        let (chunks, max) = (reply.write_chunks.len(), self.limits.max_write_chunks);
        if chunks > max {
            return Err(Unsendable::WriteChunks { chunks, max });
        }
        let fits_inline = |reads: u64, payload: u64| {
            within_limits(reads) && header(reads).saturating_add(payload) <= u64::from(self.inline)
        };
        let fits_long = |reads: u64| within_limits(reads) && header(reads) <= u64::from(self.threshold);
        if header(0) > u64::from(self.reply_threshold) {
            return Err(Unsendable::Header { bytes: header(0), max: self.reply_threshold });
        }
        let item_segments = |items: &[Item]| {
            items.iter().fold(0u64, |sum, item| sum.saturating_add(self.segments(item.data.len() as u64)))
        };
        let (inline, position_zero, items) = if fits_inline(0, message.unreduced_len()) {
            (Some(message.flatten()), None, Vec::new())
        } else if !self.reads {
            let bytes = header(0).saturating_add(message.unreduced_len());
            return Err(Unsendable::NotInline { bytes, max: self.inline });
        } else if fits_inline(item_segments(&message.items), message.stream.len() as u64) {
            (Some(message.stream), None, message.items)
        } else if self.long_call == LongCall::Reduced
            && fits_long(
                self.segments(message.stream.len() as u64).saturating_add(item_segments(&message.items)),
            )
        {
            (None, Some(message.stream), message.items)
        } else {
            (None, Some(message.flatten()), Vec::new())
        };
        let zero_segments = position_zero.as_ref().map_or(0, |stream| self.segments(stream.len() as u64));
        let long_segments = zero_segments.saturating_add(item_segments(&items));
        if inline.is_none() && !fits_long(long_segments) {
            return Err(match within_limits(long_segments) {
                true => Unsendable::Header { bytes: header(long_segments), max: self.threshold },
                false => too_many(long_segments),
            });
        }
        let write_chunks = reply.write_chunks.len();
        let regions = self.regions(position_zero.as_ref(), &items, reply, spare);
        Ok(Plan { inline, regions, write_chunks })
    }

    fn regions(
        &self,
        position_zero: Option<&Bytes>,
        items: &[Item],
        mut reply: ReplyResources,
        spare: &mut Spare,
    ) -> Vec<Region> {
        let mut regions = mem::take(&mut spare.regions);
        if let Some(stream) = position_zero {
            self.add_source(stream, Role::Read(0), &mut regions);
        }
        for item in items {
            self.add_source(&item.data, Role::Read(item.position), &mut regions);
        }
        for (index, len) in reply.write_chunks.iter().enumerate() {
            let memory = reply.memory.take().unwrap_or_else(|| spare.sinks.take(size_of(*len)));
            self.add_sink(memory, *len, Role::Write(index), &mut regions);
        }
        if let Some(len) = reply.reply_chunk {
            self.add_sink(spare.sinks.take(size_of(len)), len, Role::Reply, &mut regions);
        }
        reply.write_chunks.clear();
        spare.write_chunks = reply.write_chunks;
        regions
    }

    fn segments(&self, len: u64) -> u64 {
        len.div_ceil(u64::from(self.max_segment.max(1)))
    }

    fn add_source(&self, data: &Bytes, role: Role, regions: &mut Vec<Region>) {
        let size = usize::try_from(self.max_segment.max(1)).unwrap_or(usize::MAX);
        let mut rest = data.clone();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(size));
            regions.push(Region { role, state: RegionState::Planned(Memory::Source(piece)) });
        }
    }

    /// Splits the first `len` bytes of the memory into sinks of at most `max_segment` bytes.
    fn add_sink(&self, mut memory: BytesMut, len: u32, role: Role, regions: &mut Vec<Region>) {
        let mut remaining = len;
        while remaining > 0 {
            let size = remaining.min(self.max_segment.max(1));
            let rest = memory.split_off(size_of(size).min(memory.capacity()));
            let sink = Memory::Sink(mem::replace(&mut memory, rest));
            regions.push(Region { role, state: RegionState::Planned(sink) });
            remaining = remaining.saturating_sub(size);
        }
    }
}

fn size_of(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
