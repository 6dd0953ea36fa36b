//! Registered memory in slots of equal size, for received messages, short parts of sent messages, and short
//! RDMA Reads and Writes.
//!
//! The memory stays registered and is never advertised.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ibverbs_sys as ib;

use super::objects::{Domain, Slab};

/// The maximum number of slots in a slab.
const MAX_SLAB_SLOTS: usize = 32;
/// The maximum size of a slab, in octets. A slab has at least one slot, even if the slot exceeds this size.
const MAX_SLAB_SIZE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Slots {
    slabs: Vec<Slab>,
    free: Vec<usize>,
    size: usize,
    slots_per_slab: usize,
}

impl Slots {
    pub(super) fn new(size: usize) -> Self {
        let slots_per_slab = (MAX_SLAB_SIZE / size.max(1)).clamp(1, MAX_SLAB_SLOTS);
        Slots { slabs: Vec::new(), free: Vec::new(), size, slots_per_slab }
    }

    pub(super) fn take(&mut self, domain: &Arc<Domain>) -> io::Result<usize> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let first = self.slabs.len() * self.slots_per_slab;
        self.slabs.push(Slab::new(domain, self.slots_per_slab, self.size)?);
        self.free.extend((first + 1..first + self.slots_per_slab).rev());
        Ok(first)
    }

    pub(super) fn release(&mut self, slot: usize) {
        self.free.push(slot);
    }

    fn slab(&self, slot: usize) -> io::Result<(&Slab, usize)> {
        let (slab, index) = (slot / self.slots_per_slab, slot % self.slots_per_slab);
        Ok((self.slabs.get(slab).ok_or(io::ErrorKind::NotFound)?, index))
    }

    pub(super) fn sge(&self, slot: usize, skip: usize, len: usize) -> io::Result<ib::ibv_sge> {
        let (slab, index) = self.slab(slot)?;
        Ok(slab.sge(index, skip, len).ok_or(io::ErrorKind::InvalidInput)?)
    }

    pub(super) fn full_sge(&self, slot: usize) -> io::Result<ib::ibv_sge> {
        self.sge(slot, 0, self.size)
    }

    /// # Safety
    /// The device must not be using the slot.
    pub(super) unsafe fn read(&self, slot: usize, len: usize) -> io::Result<Bytes> {
        let (slab, index) = self.slab(slot)?;
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { slab.read(index, len) }.ok_or(io::ErrorKind::InvalidData)?)
    }

    /// # Safety
    /// The device must not be using the part of the slot that is written.
    pub(super) unsafe fn write(&mut self, slot: usize, skip: usize, data: &[u8]) -> io::Result<()> {
        let (slab, index) = (slot / self.slots_per_slab, slot % self.slots_per_slab);
        let slab = self.slabs.get_mut(slab).ok_or(io::ErrorKind::NotFound)?;
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { slab.write(index, skip, data) }.ok_or(io::ErrorKind::InvalidInput)?)
    }
}
