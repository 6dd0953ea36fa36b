use alloc::collections::VecDeque;

use bytes::BytesMut;

/// The maximum number of bytes kept for the sinks of later calls.
const MAX_KEPT: usize = 16 << 20;
/// The maximum number of buffers kept.
const MAX_PIECES: usize = 64;

/// The sinks of one connection. Their memory is reused once no received data refers to it, and is never
/// zeroed.
#[derive(Debug, Default)]
pub(super) struct Sinks {
    /// A share of each buffer, and its size. The most recently used buffer is first.
    kept: VecDeque<(usize, BytesMut)>,
    bytes: usize,
}

impl Sinks {
    /// Returns an empty buffer with this capacity.
    pub(super) fn take(&mut self, len: usize) -> BytesMut {
        for at in 0..self.kept.len() {
            let Some((size, share)) = self.kept.get_mut(at) else { break };
            // Chooses an unshared buffer of at most twice the required size.
            if (len..=len.saturating_mul(2)).contains(size) && share.try_reclaim(len) {
                let mut sink = share.split_off(0);
                // Returns the rest of the memory to the share that is kept.
                drop(sink.split_off(len));
                if let Some(used) = self.kept.remove(at) {
                    self.kept.push_front(used);
                }
                return sink;
            }
        }
        let mut share = BytesMut::with_capacity(len);
        let sink = share.split_off(0);
        self.bytes = self.bytes.saturating_add(len);
        self.kept.push_front((len, share));
        while self.bytes > MAX_KEPT || self.kept.len() > MAX_PIECES {
            let Some((size, _)) = self.kept.pop_back() else { break };
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
        let mut sinks = Sinks::default();
        let mut first = sinks.take(1000);
        assert_eq!((first.len(), first.capacity()), (0, 1000));
        first.resize(1000, 7);
        let (place, held) = (first.as_ptr(), first.freeze().slice(10..20));
        let second = sinks.take(1000);
        assert_ne!(second.as_ptr(), place, "somebody holds a part of the first");
        drop((held, second));
        let both = [sinks.take(600), sinks.take(1000)];
        assert_eq!(both.each_ref().map(|sink| (sink.len(), sink.capacity())), [(0, 600), (0, 1000)]);
        assert_eq!(sinks.bytes, 2000, "no memory is new");
    }

    #[test]
    fn stored_replies_are_bounded() {
        let mut sinks = Sinks::default();
        let all: Vec<_> = (0..40).map(|_| sinks.take(1 << 20)).collect();
        assert_eq!((sinks.kept.len(), sinks.bytes), (16, MAX_KEPT));
        drop(all);
        let short: Vec<_> = (0..100).map(|_| sinks.take(16)).collect();
        assert!(short.len() == 100 && sinks.kept.len() <= MAX_PIECES && sinks.bytes <= MAX_KEPT);
        assert!(sinks.take(MAX_KEPT + 1).capacity() > MAX_KEPT, "it is not kept");
    }
}
