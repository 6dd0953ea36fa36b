use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::proto::work::{Memory, Segment};
use crate::wire::iwarp::Fault;

/// Where unpredictable numbers come from.
pub struct Entropy(Box<dyn FnMut() -> u64 + Send>);

impl Entropy {
    /// Takes a source. STags and offsets are made of it, so a real connection's cannot be guessed only if this cannot.
    pub fn new(source: impl FnMut() -> u64 + Send + 'static) -> Self {
        Entropy(Box::new(source))
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        (self.0)()
    }

    /// An STag; never zero.
    pub(super) fn stag(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.next_u64().to_be_bytes();
        u32::from_be_bytes([a, b, c, d]).max(1)
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

/// The advertised memory of one stream: the table that stands between the peer and every byte of ours.
#[derive(Debug, Default)]
pub(super) struct Regions(BTreeMap<u32, Region>);

#[derive(Debug)]
struct Region {
    /// What the peer calls its first byte: random, not an address.
    base: u64,
    memory: Memory,
    /// The peer invalidated it; it waits to be fetched home.
    invalidated: bool,
}

/// Room above a base, so that no region's offsets wrap.
const BASE_MASK: u64 = 0x7fff_ffff_ffff_f000;

impl Regions {
    /// Advertises memory.
    ///
    /// # Errors
    /// The memory itself, if its length is no segment's.
    pub(super) fn register(&mut self, memory: Memory, entropy: &mut Entropy) -> Result<Segment, Memory> {
        let Ok(length) = u32::try_from(memory.len()) else { return Err(memory) };
        let mut handle = entropy.stag();
        while self.0.contains_key(&handle) {
            handle = entropy.stag();
        }
        let base = entropy.next_u64() & BASE_MASK;
        self.0.insert(handle, Region { base, memory, invalidated: false });
        Ok(Segment { handle, length, offset: base })
    }

    /// Whether an STag is in use, for anything.
    pub(super) fn contains(&self, stag: u32) -> bool {
        self.0.contains_key(&stag)
    }

    /// Fences memory: the peer cannot reach it any more.
    pub(super) fn revoke(&mut self, handle: u32) -> Option<Memory> {
        self.0.remove(&handle).map(|region| region.memory)
    }

    /// Everything, fenced.
    pub(super) fn revoke_all(&mut self) -> Vec<Memory> {
        core::mem::take(&mut self.0).into_values().map(|region| region.memory).collect()
    }

    /// The peer invalidates its handle.
    pub(super) fn invalidate(&mut self, stag: u32) -> Result<(), Fault> {
        match self.0.get_mut(&stag) {
            Some(region) if !region.invalidated => {
                region.invalidated = true;
                Ok(())
            }
            _ => Err(Fault::CANNOT_INVALIDATE),
        }
    }

    /// Places what the peer writes: all of it or nothing.
    pub(super) fn place(&mut self, stag: u32, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let region = self.0.get_mut(&stag).filter(|region| !region.invalidated).ok_or(Fault::TAGGED_STAG)?;
        let Memory::Sink(memory) = &mut region.memory else { return Err(Fault::ACCESS) };
        offset.checked_add(data.len() as u64).ok_or(Fault::TAGGED_WRAP)?;
        let start = offset.checked_sub(region.base).and_then(|start| usize::try_from(start).ok());
        let start = start.ok_or(Fault::TAGGED_BOUNDS)?;
        let end = start.checked_add(data.len()).ok_or(Fault::TAGGED_WRAP)?;
        memory.get_mut(start..end).ok_or(Fault::TAGGED_BOUNDS)?.copy_from_slice(data);
        Ok(())
    }

    /// What the peer reads.
    pub(super) fn source(&self, wanted: &Segment) -> Result<Bytes, Fault> {
        let region =
            self.0.get(&wanted.handle).filter(|region| !region.invalidated).ok_or(Fault::INVALID_STAG)?;
        let Memory::Source(memory) = &region.memory else { return Err(Fault::ACCESS) };
        let length = u64::from(wanted.length);
        wanted.offset.checked_add(length).ok_or(Fault::READ_WRAP)?;
        let start = wanted.offset.checked_sub(region.base).ok_or(Fault::READ_BOUNDS)?;
        let end = start.checked_add(length).ok_or(Fault::READ_WRAP)?;
        if end > memory.len() as u64 {
            return Err(Fault::READ_BOUNDS);
        }
        // Both are at most the length of memory that exists.
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        range.map(|(start, end)| memory.slice(start..end)).ok_or(Fault::READ_BOUNDS)
    }

    /// Whether the peer may still read this memory.
    pub(super) fn is_readable(&self, stag: u32) -> bool {
        self.0.get(&stag).is_some_and(|region| !region.invalidated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    fn entropy() -> Entropy {
        let mut state = 1u64;
        Entropy::new(move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state
        })
    }

    fn sink(regions: &mut Regions, len: usize) -> Segment {
        regions.register(Memory::Sink(BytesMut::zeroed(len)), &mut entropy()).expect("registered")
    }

    #[test]
    fn h44_one_byte_past_the_end_places_nothing() {
        let mut regions = Regions::default();
        let at = sink(&mut regions, 8);
        assert_eq!(regions.place(at.handle, at.offset + 4, &[1; 5]), Err(Fault::TAGGED_BOUNDS));
        assert_eq!(regions.place(at.handle, at.offset - 1, &[1; 2]), Err(Fault::TAGGED_BOUNDS));
        assert_eq!(regions.place(at.handle, u64::MAX, &[1; 2]), Err(Fault::TAGGED_WRAP));
        assert_eq!(regions.place(at.handle, at.offset + 4, &[2; 4]), Ok(()));
        let Some(Memory::Sink(memory)) = regions.revoke(at.handle) else { panic!("a sink") };
        assert_eq!(memory[..], [0, 0, 0, 0, 2, 2, 2, 2]);
    }

    #[test]
    fn h40_h41_h45_an_unknown_a_stale_and_a_revoked_stag() {
        let mut regions = Regions::default();
        let at = sink(&mut regions, 8);
        assert_eq!(regions.place(at.handle ^ 1, at.offset, &[1]), Err(Fault::TAGGED_STAG));
        regions.revoke(at.handle);
        assert_eq!(regions.place(at.handle, at.offset, &[1]), Err(Fault::TAGGED_STAG));
    }

    #[test]
    fn h43_rights_are_separate() {
        let mut regions = Regions::default();
        let written = sink(&mut regions, 8);
        assert_eq!(regions.source(&written), Err(Fault::ACCESS));
        let read = regions
            .register(Memory::Source(Bytes::from_static(b"data")), &mut entropy())
            .expect("registered");
        assert_eq!(regions.place(read.handle, read.offset, &[1]), Err(Fault::ACCESS));
        assert_eq!(regions.source(&read).expect("readable")[..], *b"data");
    }

    #[test]
    fn h48_reads_stay_within_their_memory() {
        let mut regions = Regions::default();
        let at = regions
            .register(Memory::Source(Bytes::from_static(b"data")), &mut entropy())
            .expect("registered");
        assert_eq!(regions.source(&Segment { length: u32::MAX, ..at }), Err(Fault::READ_BOUNDS));
        assert_eq!(regions.source(&Segment { offset: at.offset + 1, ..at }), Err(Fault::READ_BOUNDS));
        assert_eq!(regions.source(&Segment { offset: u64::MAX, ..at }), Err(Fault::READ_WRAP));
        assert_eq!(regions.source(&Segment { handle: !at.handle, ..at }), Err(Fault::INVALID_STAG));
    }

    #[test]
    fn h46_only_what_is_advertised_is_invalidated_and_only_once() {
        let mut regions = Regions::default();
        let at = sink(&mut regions, 8);
        assert_eq!(regions.invalidate(!at.handle), Err(Fault::CANNOT_INVALIDATE));
        assert_eq!(regions.invalidate(at.handle), Ok(()));
        assert_eq!(regions.invalidate(at.handle), Err(Fault::CANNOT_INVALIDATE));
        assert_eq!(regions.place(at.handle, at.offset, &[1]), Err(Fault::TAGGED_STAG));
        assert!(regions.revoke(at.handle).is_some(), "its memory still comes home");
    }
}
