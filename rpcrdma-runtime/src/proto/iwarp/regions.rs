use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use bytes::{Bytes, BytesMut};

use super::Entropy;
use crate::proto::work::{Completion, Memory, RegionPart, Segment, Token};

/// The maximum number of attempts to find a free handle.
const MAX_ATTEMPTS: usize = 16;

/// The registered regions by handle.
///
/// A handle is 32 random bits, never an address, and is valid on one connection only. Clearing the
/// `advertised` flag fences a region: every access checks the flag first. Unfinished Read Responses share the
/// memory of a source. An invalidation returns the memory after the last response is sent or dropped.
pub(super) struct Regions {
    entropy: Box<dyn Entropy>,
    by_handle: BTreeMap<u32, Region>,
}

struct Region {
    memory: Memory,
    base: u64,
    advertised: bool,
    /// The size of a sink if its memory was freed ([`Regions::abandon`]), otherwise 0.
    freed: usize,
    /// The index of the first octet that [`Regions::place`] has not confirmed yet, if any.
    unchecked: Option<usize>,
    /// The number of unfinished Read Responses.
    responses: u32,
    /// The token of the invalidation that waits for the last Read Response, if any.
    fence: Option<Token>,
}

impl Region {
    /// Returns the memory, without unchecked octets.
    fn into_memory(mut self) -> Memory {
        if let (Memory::Sink(sink), Some(start)) = (&mut self.memory, self.unchecked) {
            sink.truncate(start);
        }
        self.memory
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The handle is unknown or fenced.
    Unknown,
    /// The peer tried to write a source or to read a sink.
    Rights,
    Bounds,
    /// The end of the range overflows 64 bits.
    Wrap,
}

impl Regions {
    pub(super) fn new(entropy: Box<dyn Entropy>) -> Self {
        Regions { entropy, by_handle: BTreeMap::new() }
    }

    /// Returns an unused handle and a base offset for a region of any size. Returns `None` if the source of
    /// randomness fails or no unused handle is found.
    pub(super) fn new_handle(&mut self) -> Option<(u32, u64)> {
        for _ in 0..MAX_ATTEMPTS {
            let [h0, h1, h2, h3, rest @ ..] = self.entropy.random()?.to_be_bytes();
            let handle = u32::from_be_bytes([h0, h1, h2, h3]);
            // The base has 32 random bits and is below 2^44, so the end of the largest region does not
            // overflow.
            let base = u64::from(u32::from_be_bytes(rest)) << 12;
            // Handle 0 is the target of a probe, and other implementations reserve it.
            if handle != 0 && !self.by_handle.contains_key(&handle) {
                return Some((handle, base));
            }
        }
        None
    }

    pub(super) fn register(&mut self, memory: Memory, max: u32) -> Result<Segment, Memory> {
        let Some(length) = u32::try_from(memory.len()).ok().filter(|length| *length <= max) else {
            return Err(memory);
        };
        let Some((handle, base)) = self.new_handle() else { return Err(memory) };
        let region =
            Region { memory, base, advertised: true, freed: 0, unchecked: None, responses: 0, fence: None };
        self.by_handle.insert(handle, region);
        Ok(Segment { handle, length, offset: base })
    }

    /// Fences a region and returns the completion with its memory. Returns `None` if a Read Response is
    /// unfinished: [`response_sent`](Self::response_sent) or [`responses_dropped`](Self::responses_dropped)
    /// then returns the completion. For an unknown handle or a second invalidation, the memory is empty.
    pub(super) fn invalidate(&mut self, token: Token, handle: u32) -> Option<Completion> {
        let empty = Memory::Source(Bytes::new());
        let Some(region) = self.by_handle.get_mut(&handle).filter(|region| region.fence.is_none()) else {
            return Some(Completion::Invalidated { token, handle, memory: empty });
        };
        region.advertised = false;
        if region.responses > 0 {
            region.fence = Some(token);
            return None;
        }
        let memory = self.by_handle.remove(&handle).map_or(empty, Region::into_memory);
        Some(Completion::Invalidated { token, handle, memory })
    }

    /// Frees the memory of a sink. Later writes within its bounds are dropped.
    pub(super) fn abandon(&mut self, handle: u32) {
        if let Some(Region { memory: Memory::Sink(sink), freed, .. }) = self.by_handle.get_mut(&handle) {
            *freed = sink.capacity();
            *sink = BytesMut::new();
        }
    }

    /// Fences a region on the peer's request. Returns false if no advertised region has this handle.
    pub(super) fn invalidate_by_peer(&mut self, handle: u32) -> bool {
        match self.by_handle.get_mut(&handle) {
            Some(region) if region.advertised => {
                region.advertised = false;
                true
            }
            _ => false,
        }
    }

    /// Returns the memory of an advertised sink, or `None` if no advertised sink has this handle or the
    /// memory was freed.
    pub(super) fn sink(&mut self, handle: u32) -> Option<&mut BytesMut> {
        match self.by_handle.get_mut(&handle).filter(|region| region.advertised)? {
            Region { memory: Memory::Sink(sink), freed: 0, .. } => Some(sink),
            _ => None,
        }
    }

    /// Returns the end of a sink's data if a write of `size` octets at `offset` starts there. The octets stay
    /// unchecked until [`Regions::place`] confirms them.
    pub(super) fn begin_placement(&mut self, handle: u32, offset: u64, size: usize) -> Option<usize> {
        let region = self.by_handle.get_mut(&handle).filter(|region| region.advertised)?;
        let Memory::Sink(sink) = &region.memory else { return None };
        let start = within(region.base, sink.capacity(), offset, size).ok()?;
        region.unchecked = Some(start).filter(|start| *start == sink.len());
        region.unchecked
    }

    /// Copies the data of the peer's RDMA Write into its sink. The last `placed` octets of the RDMA Write are
    /// already in the sink and not in `data`.
    pub(super) fn place(
        &mut self,
        handle: u32,
        offset: u64,
        data: &[u8],
        placed: usize,
    ) -> Result<(), Refusal> {
        let length = data.len().saturating_add(placed);
        let region = self.by_handle.get_mut(&handle).filter(|region| region.advertised);
        let region = region.ok_or(Refusal::Unknown)?;
        let (base, memory, freed) = (region.base, &mut region.memory, region.freed);
        let Memory::Sink(sink) = memory else { return Err(Refusal::Rights) };
        if freed > 0 {
            return within(base, freed, offset, length).map(|_| ());
        }
        let start = within(base, sink.capacity(), offset, length)?;
        region.unchecked = None;
        if sink.len() < start {
            sink.resize(start, 0);
        }
        let before = sink.get_mut(start..).unwrap_or_default();
        let (head, tail) = data.split_at_checked(before.len()).unwrap_or((data, &[]));
        before.iter_mut().zip(head).for_each(|(octet, new)| *octet = *new);
        sink.extend_from_slice(tail);
        Ok(())
    }

    /// Returns the data that the peer reads, shared with the region. An invalidation of the region then waits
    /// until the Read Response is sent or dropped.
    pub(super) fn source(&mut self, handle: u32, offset: u64, length: usize) -> Result<Bytes, Refusal> {
        let region = self.by_handle.get_mut(&handle).filter(|region| region.advertised);
        let region = region.ok_or(Refusal::Unknown)?;
        let Memory::Source(source) = &region.memory else { return Err(Refusal::Rights) };
        let start = within(region.base, source.len(), offset, length)?;
        let end = start.checked_add(length).ok_or(Refusal::Bounds)?;
        region.responses = region.responses.saturating_add(1);
        Ok(source.slice(start..end))
    }

    /// Records that a Read Response was sent or dropped. Returns the completion of an invalidation that
    /// waited for the last response.
    pub(super) fn response_sent(&mut self, handle: u32) -> Option<Completion> {
        let region = self.by_handle.get_mut(&handle)?;
        region.responses = region.responses.saturating_sub(1);
        let token = region.fence.filter(|_| region.responses == 0)?;
        let memory = self.by_handle.remove(&handle)?.memory;
        Some(Completion::Invalidated { token, handle, memory })
    }

    /// Fences all regions. Their memory stays available to [`Regions::invalidate`] and [`Regions::take_all`].
    pub(super) fn fence_all(&mut self) {
        for region in self.by_handle.values_mut() {
            region.advertised = false;
        }
    }

    /// Records that all responses were dropped. Returns the completions of the invalidations that waited for
    /// these responses.
    pub(super) fn responses_dropped(&mut self) -> Vec<Completion> {
        for region in self.by_handle.values_mut() {
            region.responses = 0;
        }
        let waiting = |_: &u32, region: &mut Region| region.fence.is_some();
        let free = self.by_handle.extract_if(.., waiting);
        free.filter_map(|(handle, Region { memory, fence, .. })| {
            fence.map(|token| Completion::Invalidated { token, handle, memory })
        })
        .collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Memory> {
        mem::take(&mut self.by_handle).into_values().map(Region::into_memory).collect()
    }
}

/// Returns the index of `offset` in a region of `size` octets at `base`. Fails unless all `length` octets are
/// inside the region.
fn within(base: u64, size: usize, offset: u64, length: usize) -> Result<usize, Refusal> {
    let length = u64::try_from(length).map_err(|_| Refusal::Bounds)?;
    let size = u64::try_from(size).map_err(|_| Refusal::Bounds)?;
    offset.checked_add(length).ok_or(Refusal::Wrap)?;
    let start = offset.checked_sub(base).ok_or(Refusal::Bounds)?;
    match start.checked_add(length) {
        Some(end) if end <= size => usize::try_from(start).map_err(|_| Refusal::Bounds),
        _ => Err(Refusal::Bounds),
    }
}

pub(super) struct PendingRead {
    pub(super) token: Token,
    pub(super) sink_stag: u32,
    pub(super) sink_offset: u64,
    pub(super) length: u32,
    pub(super) part: RegionPart,
    pub(super) data: BytesMut,
}

impl PendingRead {
    fn start(&self) -> usize {
        usize::try_from(self.part.offset).unwrap_or(usize::MAX)
    }

    /// Returns the number of octets of the response that have arrived.
    pub(super) fn received(&self) -> usize {
        self.data.len().saturating_sub(self.start())
    }

    /// Returns true if the octet at `offset` follows the first `so_far` octets of the response.
    pub(super) fn is_next(&self, offset: u64, so_far: usize) -> bool {
        let so_far = u64::try_from(so_far).unwrap_or(u64::MAX);
        self.sink_offset.checked_add(so_far) == Some(offset)
    }

    /// Returns the received part of the region, with capacity for the whole region.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        if self.data.capacity() == 0 {
            // The size comes from the submitted Read, so a response cannot enlarge the allocation.
            self.data.reserve(usize::try_from(self.part.total).unwrap_or(usize::MAX));
        }
        if self.data.len() < self.start() {
            self.data.resize(self.start(), 0);
        }
        &mut self.data
    }

    /// Returns the end of the data if `size` octets at `offset` are the next octets of the response.
    pub(super) fn begin_placement(&mut self, handle: u32, offset: u64, size: usize) -> Option<usize> {
        let at = self.received();
        let end = u32::try_from(at.checked_add(size)?).ok()?;
        if handle != self.sink_stag || !self.is_next(offset, at) || end > self.length {
            return None;
        }
        Some(self.room().len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::entropy;
    use super::*;

    fn regions() -> Regions {
        Regions::new(entropy(7))
    }

    fn sink(regions: &mut Regions, size: usize) -> Segment {
        regions.register(Memory::Sink(BytesMut::zeroed(size)), u32::MAX).unwrap()
    }

    /// Requirement: R377
    #[test]
    fn ranges_are_checked_to_the_octet() {
        let mut regions = regions();
        let Segment { handle, offset, .. } = sink(&mut regions, 8);
        assert_eq!(regions.place(handle, offset, &[1; 8], 0), Ok(()));
        assert_eq!(regions.place(handle, offset + 8, &[], 0), Ok(()), "an empty write at the end");
        assert_eq!(regions.place(handle, offset + 1, &[2; 8], 0), Err(Refusal::Bounds));
        assert_eq!(regions.place(handle, offset - 1, &[2; 8], 0), Err(Refusal::Bounds));
        assert_eq!(regions.place(handle, 0, &[2; 1], 0), Err(Refusal::Bounds), "offsets do not start at 0");
        assert_eq!(regions.place(handle, u64::MAX, &[2; 2], 0), Err(Refusal::Wrap));
        assert_eq!(regions.place(handle ^ 1, offset, &[2; 1], 0), Err(Refusal::Unknown), "an unknown handle");
        let Some(Completion::Invalidated { memory: Memory::Sink(data), .. }) =
            regions.invalidate(Token(1), handle)
        else {
            panic!("no memory returned")
        };
        assert_eq!(data, [1; 8][..], "rejected writes placed nothing");
        assert_eq!(regions.place(handle, offset, &[1], 0), Err(Refusal::Unknown), "fenced");
    }

    #[test]
    fn access_rights_are_checked() {
        let mut regions = regions();
        let Segment { handle, offset, .. } = sink(&mut regions, 8);
        assert_eq!(regions.source(handle, offset, 1).unwrap_err(), Refusal::Rights);
        assert!(regions.invalidate_by_peer(handle) && !regions.invalidate_by_peer(handle));
        assert_eq!(regions.place(handle, offset, &[1], 0), Err(Refusal::Unknown), "invalidated by the peer");
        let source = Memory::Source(Bytes::from_static(b"abcdef"));
        let Segment { handle, offset, .. } = regions.register(source, u32::MAX).unwrap();
        assert_eq!(regions.place(handle, offset, &[1], 0), Err(Refusal::Rights));
        assert_eq!(regions.source(handle, offset + 2, 3).unwrap(), "cde");
        assert_eq!(regions.source(handle, offset + 2, 5).unwrap_err(), Refusal::Bounds);
    }

    #[test]
    fn a_source_returns_after_its_last_read_response() {
        let mut regions = regions();
        let source = Memory::Source(Bytes::from_static(b"abcdef"));
        let Segment { handle, offset, .. } = regions.register(source, u32::MAX).unwrap();
        regions.source(handle, offset, 6).unwrap();
        regions.source(handle, offset, 6).unwrap();
        assert!(regions.invalidate(Token(5), handle).is_none());
        assert_eq!(
            regions.source(handle, offset, 1).unwrap_err(),
            Refusal::Unknown,
            "no new response starts"
        );
        assert!(!regions.invalidate_by_peer(handle));
        assert!(regions.response_sent(handle).is_none());
        let returned = regions.response_sent(handle);
        assert!(matches!(returned, Some(Completion::Invalidated { token: Token(5), .. })), "{returned:?}");
    }

    /// Requirement: R380
    #[test]
    fn fenced_regions_accept_no_access_and_return_their_memory() {
        let mut regions = regions();
        let sink = sink(&mut regions, 8);
        let source = Memory::Source(Bytes::from_static(b"abcdef"));
        let source = regions.register(source, u32::MAX).unwrap();
        regions.fence_all();
        assert_eq!(regions.place(sink.handle, sink.offset, &[1; 8], 0), Err(Refusal::Unknown));
        assert_eq!(regions.source(source.handle, source.offset, 6), Err(Refusal::Unknown));
        assert!(!regions.invalidate_by_peer(sink.handle) && !regions.invalidate_by_peer(source.handle));
        assert_eq!(regions.take_all().len(), 2);
    }

    #[test]
    fn memory_is_not_advertised_without_randomness_or_above_the_limit() {
        let mut without_entropy = Regions::new(Box::new(|| None));
        assert!(without_entropy.register(Memory::Sink(BytesMut::zeroed(1)), u32::MAX).is_err());
        assert!(regions().register(Memory::Sink(BytesMut::zeroed(9)), 8).is_err());
        assert!(regions().register(Memory::Sink(BytesMut::zeroed(8)), 8).is_ok());
        let mut same = Regions::new(Box::new(|| Some(1 << 40)));
        assert!(same.register(Memory::Sink(BytesMut::zeroed(1)), u32::MAX).is_ok());
        assert!(same.register(Memory::Sink(BytesMut::zeroed(1)), u32::MAX).is_err(), "no handle is reused");
    }

    #[test]
    fn the_largest_region_fits_behind_the_largest_base() {
        let (handle, base) = Regions::new(Box::new(|| Some(u64::MAX))).new_handle().unwrap();
        assert_eq!((handle, base), (u32::MAX, 0x0fff_ffff_f000));
        assert!(base.checked_add(u32::MAX.into()).is_some());
    }
}
