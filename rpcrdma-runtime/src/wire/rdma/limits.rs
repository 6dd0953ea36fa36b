use rpcrdma_layout::MAX_TRANSFER;

/// Limits on the work that a peer can cause. A requester also applies `max_segments` and `max_write_chunks`
/// to its own calls, because their replies return the offered chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// Maximum number of segments in all chunks of one message (default 1,024).
    pub max_segments: usize,
    /// Maximum number of Write chunks in one message (default 64).
    pub max_write_chunks: usize,
    /// Maximum total size of one call's Read chunks, in bytes (default [`MAX_TRANSFER`], 8 MiB). A `Server`
    /// raises the default to accept the longest calls of its programs, up to half of its memory budget.
    pub max_transfer: u64,
    #[doc(hidden)]
    pub non_exhaustive: (),
}

impl Default for MessageLimits {
    fn default() -> Self {
        MessageLimits {
            max_segments: 1024,
            max_write_chunks: 64,
            max_transfer: MAX_TRANSFER,
            non_exhaustive: (),
        }
    }
}
