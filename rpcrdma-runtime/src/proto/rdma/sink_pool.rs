use alloc::collections::VecDeque;

use bytes::BytesMut;

/// The maximum total size of the stored buffers, in bytes.
const MAX_BYTES: usize = 16 << 20;
const MAX_BUFFERS: usize = 64;

/// Memory for the sinks of one connection. A buffer is reused, without zeroing, once no received data refers
/// to it.
#[derive(Debug, Default)]
pub(super) struct SinkPool {
    /// Each buffer's size, and a `BytesMut` that shares its memory. The most recently used buffer is first.
    buffers: VecDeque<(usize, BytesMut)>,
    bytes: usize,
}

impl SinkPool {
    pub(super) fn take(&mut self, len: usize) -> BytesMut {
        for at in 0..self.buffers.len() {
            let Some((size, share)) = self.buffers.get_mut(at) else { break };
            // Chooses an unshared buffer of at least the required size and at most twice that size.
            if (len..=len.saturating_mul(2)).contains(size) && share.try_reclaim(len) {
                let mut sink = share.split_off(0);
                // Limits the capacity of the sink. The next `try_reclaim` also reclaims the dropped part.
                drop(sink.split_off(len));
                if let Some(used) = self.buffers.remove(at) {
                    self.buffers.push_front(used);
                }
                return sink;
            }
        }
        let mut share = BytesMut::with_capacity(len);
        let sink = share.split_off(0);
        self.bytes = self.bytes.saturating_add(len);
        self.buffers.push_front((len, share));
        while self.bytes > MAX_BYTES || self.buffers.len() > MAX_BUFFERS {
            let Some((size, _)) = self.buffers.pop_back() else { break };
            self.bytes = self.bytes.saturating_sub(size);
        }
        sink
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_after_its_last_reference() {
        let mut sinks = SinkPool::default();
        let mut first = sinks.take(1000);
        assert_eq!((first.len(), first.capacity()), (0, 1000));
        first.resize(1000, 7);
        let (place, held) = (first.as_ptr(), first.freeze().slice(10..20));
        let second = sinks.take(1000);
        assert_ne!(second.as_ptr(), place, "the first buffer is still shared");
        drop((held, second));
        let both = [sinks.take(600), sinks.take(1000)];
        assert_eq!(both.each_ref().map(|sink| (sink.len(), sink.capacity())), [(0, 600), (0, 1000)]);
        assert_eq!(sinks.bytes, 2000, "both buffers were reused");
    }

    #[test]
    fn stored_memory_is_bounded() {
        let mut sinks = SinkPool::default();
        let all: Vec<_> = (0..40).map(|_| sinks.take(1 << 20)).collect();
        assert_eq!((sinks.buffers.len(), sinks.bytes), (16, MAX_BYTES));
        drop(all);
        let short: Vec<_> = (0..100).map(|_| sinks.take(16)).collect();
        assert!(short.len() == 100 && sinks.buffers.len() <= MAX_BUFFERS && sinks.bytes <= MAX_BYTES);
        assert!(sinks.take(MAX_BYTES + 1).capacity() > MAX_BYTES, "a buffer above the limit is allocated");
    }
}
