//! The memory that one peer advertises, and the other peer's access to it.

use std::collections::BTreeMap;

use bytes::Bytes;
use rpcrdma_runtime::proto::work::{Memory, Segment};

use super::Rng;

#[derive(Debug, Default)]
pub(super) struct Regions(BTreeMap<u32, Region>);

#[derive(Debug)]
struct Region {
    base: u64,
    memory: Memory,
    /// True if the peer has invalidated the handle, but the owner has not removed the region yet.
    fenced: bool,
    /// True if the owner no longer reads the region. The peer's writes are then dropped.
    abandoned: bool,
}

impl Regions {
    pub(super) fn register(&mut self, mut memory: Memory, rng: &mut Rng) -> Segment {
        memory.initialize();
        let length = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        let mut handle = low_word(rng.next_u64());
        while self.0.contains_key(&handle) {
            handle = low_word(rng.next_u64());
        }
        let base = rng.below(u64::MAX.saturating_sub(u64::from(length)));
        self.0.insert(handle, Region { base, memory, fenced: false, abandoned: false });
        Segment { handle, length, offset: base }
    }

    /// Drops the peer's later writes to a region. The handle stays valid.
    pub(super) fn abandon(&mut self, handle: u32) {
        if let Some(region) = self.0.get_mut(&handle) {
            region.abandoned = true;
        }
    }

    pub(super) fn remove(&mut self, handle: u32) -> Option<Memory> {
        self.0.remove(&handle).map(|region| region.memory)
    }

    pub(super) fn remove_all(&mut self) -> Vec<Memory> {
        std::mem::take(&mut self.0).into_values().map(|region| region.memory).collect()
    }

    /// Invalidates the handle that the peer's Send with Invalidate specifies.
    ///
    /// # Errors
    /// Fails if the peer cannot access the handle.
    pub(super) fn invalidate_remotely(&mut self, handle: u32) -> Result<(), &'static str> {
        match self.0.get_mut(&handle) {
            Some(region) if !region.fenced => {
                region.fenced = true;
                Ok(())
            }
            _ => Err("Send with Invalidate of a handle that is not advertised"),
        }
    }

    /// Places the data of the peer's RDMA Write.
    ///
    /// # Errors
    /// Fails if the handle is unknown or fenced, if it allows no writes, or if the range is out of bounds.
    /// On failure, the memory is unchanged.
    pub(super) fn write(&mut self, sink: &Segment, data: &[u8]) -> Result<(), &'static str> {
        let region = self.accessible(sink.handle)?;
        let start = region.start(sink.offset, data.len())?;
        let Memory::Sink(memory) = &mut region.memory else {
            return Err("RDMA Write to a source region");
        };
        let end = start.checked_add(data.len()).ok_or("out of bounds")?;
        let place = memory.get_mut(start..end).ok_or("out of bounds")?;
        if !region.abandoned {
            place.copy_from_slice(data);
        }
        Ok(())
    }

    /// Returns the data for the peer's RDMA Read.
    ///
    /// # Errors
    /// Fails if the handle is unknown or fenced, if it allows no reads, or if the range is out of bounds.
    pub(super) fn read(&mut self, source: &Segment) -> Result<Bytes, &'static str> {
        let region = self.accessible(source.handle)?;
        let len = usize::try_from(source.length).map_err(|_| "out of bounds")?;
        let start = region.start(source.offset, len)?;
        let Memory::Source(memory) = &region.memory else {
            return Err("RDMA Read from a sink region");
        };
        let end = start.checked_add(len).ok_or("out of bounds")?;
        memory.get(start..end).ok_or("out of bounds")?;
        Ok(memory.slice(start..end))
    }

    pub(super) fn exposed(&self) -> impl Iterator<Item = u32> {
        self.0.iter().filter(|(_, region)| !region.fenced).map(|(handle, _)| *handle)
    }

    /// Returns the number of regions, including fenced regions.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn accessible(&mut self, handle: u32) -> Result<&mut Region, &'static str> {
        self.0
            .get_mut(&handle)
            .filter(|region| !region.fenced)
            .ok_or("access to a handle that is not advertised")
    }
}

impl Region {
    /// Converts the peer's offset to an index into the memory. Fails if any of the `len` bytes from this
    /// offset is outside the region.
    fn start(&self, offset: u64, len: usize) -> Result<usize, &'static str> {
        let start = offset.checked_sub(self.base).and_then(|start| usize::try_from(start).ok());
        start
            .filter(|start| start.checked_add(len).is_some_and(|end| end <= self.memory.len()))
            .ok_or("out of bounds")
    }
}

fn low_word(number: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn at(segment: Segment, skip: u64, length: u32) -> Segment {
        Segment { offset: segment.offset.wrapping_add(skip), length, ..segment }
    }

    #[test]
    fn the_peer_reads_sources_and_writes_sinks_in_bounds() {
        let (mut regions, mut rng) = (Regions::default(), Rng::new(1));
        let source = regions.register(Memory::Source(Bytes::from_static(b"source")), &mut rng);
        let sink = regions.register(Memory::Sink(BytesMut::zeroed(6)), &mut rng);
        assert_eq!(regions.read(&at(source, 2, 4)).as_deref(), Ok(&b"urce"[..]));
        assert!(regions.read(&at(source, 2, 5)).is_err());
        assert!(regions.read(&at(source, u64::MAX, 1)).is_err());
        assert!(regions.write(&source, b"x").is_err(), "a source allows no writes");
        assert!(regions.read(&sink).is_err(), "a sink allows no reads");
        assert!(regions.write(&at(sink, 3, 4), b"1234").is_err(), "one byte past the end");
        regions.write(&at(sink, 3, 3), b"abc").expect("within bounds");
        let Some(Memory::Sink(memory)) = regions.remove(sink.handle) else { panic!("expected a sink") };
        assert_eq!(&memory[..], b"\0\0\0abc");
        assert!(regions.write(&sink, b"x").is_err(), "the handle is removed");
    }

    #[test]
    fn an_invalidated_region_is_fenced_until_its_owner_removes_it() {
        let (mut regions, mut rng) = (Regions::default(), Rng::new(1));
        let source = regions.register(Memory::Source(Bytes::from_static(b"source")), &mut rng);
        regions.invalidate_remotely(source.handle).expect("advertised");
        assert!(regions.read(&source).is_err());
        assert!(regions.invalidate_remotely(source.handle).is_err(), "second invalidation");
        assert_eq!((regions.exposed().count(), regions.len()), (0, 1));
        assert!(regions.remove(source.handle).is_some());
        assert_eq!(regions.len(), 0);
    }
}
