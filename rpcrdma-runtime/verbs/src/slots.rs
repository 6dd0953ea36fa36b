//! Registered memory in slots of one size, for messages that come in, for short ones that go out, and for short RDMA Writes and
//! Reads. It stays registered, and none of it is ever advertised.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ibverbs_sys as ib;

use super::objects::{Domain, Slab};

/// Slots that are registered together: at most so many, and no more of them than have so many octets, but one at least.
const SLOTS: usize = 32;
const SLAB: usize = 1 << 20;

/// Slots of registered memory, as many as are needed.
#[derive(Debug)]
pub(super) struct Slots {
    slabs: Vec<Slab>,
    free: Vec<usize>,
    size: usize,
    /// How many of them a slab has.
    in_slab: usize,
}

impl Slots {
    pub(super) fn new(size: usize) -> Self {
        let in_slab = (SLAB / size.max(1)).clamp(1, SLOTS);
        Slots { slabs: Vec::new(), free: Vec::new(), size, in_slab }
    }

    pub(super) fn take(&mut self, domain: &Arc<Domain>) -> io::Result<usize> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let first = self.slabs.len() * self.in_slab;
        self.slabs.push(Slab::new(domain, self.in_slab, self.size)?);
        self.free.extend((first + 1..first + self.in_slab).rev());
        Ok(first)
    }

    pub(super) fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    fn slab(&self, slot: usize) -> io::Result<(&Slab, usize)> {
        let (slab, index) = (slot / self.in_slab, slot % self.in_slab);
        Ok((self.slabs.get(slab).ok_or(io::ErrorKind::NotFound)?, index))
    }

    pub(super) fn piece(&self, slot: usize, skip: usize, len: usize) -> io::Result<ib::ibv_sge> {
        let (slab, index) = self.slab(slot)?;
        Ok(slab.piece(index, skip, len).ok_or(io::ErrorKind::InvalidInput)?)
    }

    pub(super) fn whole(&self, slot: usize) -> io::Result<ib::ibv_sge> {
        self.piece(slot, 0, self.size)
    }

    /// # Safety
    /// The device does not use the slot.
    pub(super) unsafe fn read(&self, slot: usize, len: usize) -> io::Result<Bytes> {
        let (slab, index) = self.slab(slot)?;
        // SAFETY: as the caller says.
        Ok(unsafe { slab.read(index, len) }.ok_or(io::ErrorKind::InvalidData)?)
    }

    /// # Safety
    /// The device does not use that part of the slot.
    pub(super) unsafe fn write(&mut self, slot: usize, skip: usize, data: &[u8]) -> io::Result<()> {
        let (slab, index) = (slot / self.in_slab, slot % self.in_slab);
        let slab = self.slabs.get_mut(slab).ok_or(io::ErrorKind::NotFound)?;
        // SAFETY: as the caller says.
        Ok(unsafe { slab.write(index, skip, data) }.ok_or(io::ErrorKind::InvalidInput)?)
    }
}
