use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::proto::program::ReplyBounds;
use crate::xdr::{BytesMut, ItemMemory, Size};

/// Why a call cannot use the memory that the caller supplied for its result. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultMemoryError {
    /// The result has no eligible item, or another layer such as RPCSEC_GSS has encoded the call.
    #[error("no eligible item for the supplied memory: the result has none, or the call uses RPCSEC_GSS")]
    NoItem,
    /// The item may be larger than the memory.
    #[error("the supplied memory is too small: {capacity} bytes, but the item can have {needed}")]
    TooSmall {
        /// Maximum size of the item, in bytes.
        needed: u64,
        /// Size of the memory, in bytes.
        capacity: usize,
    },
    /// Another call or the data of an earlier result uses the memory.
    #[error("the supplied memory is in use: wait for the other call, or drop the earlier result")]
    InUse,
}

#[derive(Debug)]
pub(super) struct ResultMemory {
    capacity: usize,
    share: Mutex<Share>,
}

#[derive(Debug)]
struct Share {
    /// An empty view of the memory. `try_reclaim` succeeds once no result uses the memory.
    part: BytesMut,
    leased: bool,
}

impl ResultMemory {
    pub(super) fn new(mut memory: BytesMut) -> Self {
        memory.clear();
        let capacity = memory.capacity();
        ResultMemory { capacity, share: Mutex::new(Share { part: memory, leased: false }) }
    }

    fn share(&self) -> MutexGuard<'_, Share> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lease(self: &Arc<Self>, bounds: &ReplyBounds) -> Result<Lease, ResultMemoryError> {
        let capacity = self.capacity;
        match bounds.item.bound() {
            _ if bounds.items == Size::ZERO || bounds.item == Size::ZERO => {
                return Err(ResultMemoryError::NoItem);
            }
            Some(needed) if needed > capacity as u64 => {
                return Err(ResultMemoryError::TooSmall { needed, capacity });
            }
            _ => {}
        }
        let mut share = self.share();
        if share.leased || !share.part.try_reclaim(capacity) {
            return Err(ResultMemoryError::InUse);
        }
        share.leased = true;
        Ok(Lease(self.clone()))
    }
}

impl ItemMemory for ResultMemory {
    fn acquire(&self) -> Option<BytesMut> {
        let mut share = self.share();
        share.part.try_reclaim(self.capacity).then(|| share.part.split_off(0))
    }
}

/// The exclusive right of one call to use the memory. Dropping the lease ends the right.
pub(super) struct Lease(pub(super) Arc<ResultMemory>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.share().leased = false;
    }
}
