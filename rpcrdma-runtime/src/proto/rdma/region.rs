use alloc::vec::Vec;

use super::sink_pool::SinkPool;
use crate::proto::work::{Memory, Segment};
use crate::wire::rdma::{ChunkLists, WriteChunk};

/// The chunk in which a region is advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A segment of the Read chunk at this position.
    Read(u32),
    /// A segment of the Write chunk with this index.
    Write(usize),
    Reply,
}

/// Memory of completed calls, for reuse.
#[derive(Debug, Default)]
pub(super) struct Spare {
    pub(super) write_chunks: Vec<u32>,
    pub(super) regions: Vec<Region>,
    pub(super) lists: ChunkLists,
    pub(super) sinks: SinkPool,
}

impl Spare {
    pub(super) fn lists(&mut self, write_chunks: usize) -> ChunkLists {
        let mut lists = core::mem::take(&mut self.lists);
        lists.reads.clear();
        lists.writes.resize_with(write_chunks, WriteChunk::default);
        lists.writes.iter_mut().for_each(|chunk| chunk.0.clear());
        lists.reply = None;
        lists
    }
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) role: Role,
    pub(super) state: RegionState,
}

impl Region {
    /// Returns the handle if the region is an advertised sink.
    pub(super) fn sink(&self) -> Option<u32> {
        match (self.role, &self.state) {
            (Role::Write(_) | Role::Reply, RegionState::Advertised(segment)) => Some(segment.handle),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum RegionState {
    Planned(Memory),
    Registering,
    Advertised(Segment),
    Fencing,
    Returned(Option<Memory>),
}
