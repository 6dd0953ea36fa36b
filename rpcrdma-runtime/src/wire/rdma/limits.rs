use rpcrdma_layout::MAX_TRANSFER;

/// Bounds on what a peer can make this side do. Each default is meant to be more than any known peer needs. A requester holds its
/// own calls to the first two as well: their replies bring back what they offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Segments in all chunks of one message (default 1,024).
    pub segments: usize,
    /// Write chunks in one message (default 64).
    pub write_chunks: usize,
    /// Bytes that the Read chunks of one call hold together (default [`MAX_TRANSFER`], 8 MiB).
    pub transfer: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { segments: 1024, write_chunks: 64, transfer: MAX_TRANSFER }
    }
}
