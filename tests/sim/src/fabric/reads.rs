use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::proto::work::{RegionPart, Token};

/// The regions that outstanding RDMA Reads fill.
#[derive(Debug, Default)]
pub struct ReadRegions {
    /// For each outstanding RDMA Read, the number of its region and the part of the region that it fills.
    reads: BTreeMap<Token, (u64, RegionPart)>,
    /// Regions by number, each with the number of octets that have not arrived.
    regions: BTreeMap<u64, (BytesMut, u64)>,
    last: u64,
}

impl ReadRegions {
    /// Starts an RDMA Read. The part must belong to the region of the previous part, or start a new region.
    pub fn start(&mut self, token: Token, length: u32, part: RegionPart) {
        if part.offset == 0 {
            self.last += 1;
            let len = usize::try_from(part.total).expect("a region fits in memory");
            self.regions.insert(self.last, (BytesMut::zeroed(len), part.total));
        }
        assert!(part.offset + u64::from(length) <= part.total, "{part:?} ends beyond its region");
        self.reads.insert(token, (self.last, part));
    }

    /// Stores the data of an RDMA Read. Returns the region if this data completes the region,
    /// and an empty buffer otherwise.
    pub fn finish(&mut self, token: Token, data: &[u8]) -> Bytes {
        let (number, part) = self.reads.remove(&token).expect("an outstanding RDMA Read");
        let (region, left) = self.regions.get_mut(&number).expect("its region");
        let start = usize::try_from(part.offset).expect("a region fits in memory");
        region[start..start + data.len()].copy_from_slice(data);
        *left -= data.len() as u64;
        if *left > 0 {
            return Bytes::new();
        }
        self.regions.remove(&number).map(|(region, _)| region.freeze()).unwrap_or_default()
    }
}
