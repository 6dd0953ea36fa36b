use core::fmt;

/// How one call and its reply were transferred. All lengths are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The size of the call's Send, including the RPC-over-RDMA header; over TCP, the size of the call's RPC
    /// message.
    pub call_inline: u64,
    /// The number of Read chunks, excluding the Position-Zero Read chunk: one for each item outside the
    /// stream.
    pub read_chunks: u32,
    /// The number of bytes in these Read chunks.
    pub read_bytes: u64,
    /// The length of the stream in the Position-Zero Read chunk, or 0 if the call has no such chunk.
    pub position_zero: u64,
    /// The number of offered Write chunks.
    pub write_chunks: u32,
    /// The number of bytes of the reply in Write chunks.
    pub write_bytes: u64,
    /// Whether a Reply chunk was offered.
    pub reply_chunk: bool,
    /// The number of bytes of the reply in the Reply chunk.
    pub reply_chunk_bytes: u64,
    /// The size of the reply's Send, including the RPC-over-RDMA header; over TCP, the size of the reply's
    /// RPC message.
    pub reply_inline: u64,
    /// The total number of segments in all chunks of the call.
    pub segments: u32,
    /// Whether the reply invalidated a handle (Send with Invalidate).
    pub remote_invalidation: bool,
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inline {}/{} bytes", self.call_inline, self.reply_inline)?;
        if self.read_chunks > 0 {
            let plural = if self.read_chunks == 1 { "" } else { "s" };
            write!(f, ", {} bytes in {} Read chunk{plural}", self.read_bytes, self.read_chunks)?;
        }
        if self.position_zero > 0 {
            write!(f, ", call of {} bytes in a Position-Zero Read chunk", self.position_zero)?;
        }
        if self.write_bytes > 0 {
            write!(f, ", {} bytes in Write chunks", self.write_bytes)?;
        }
        if self.reply_chunk_bytes > 0 {
            write!(f, ", reply of {} bytes in the Reply chunk", self.reply_chunk_bytes)?;
        }
        Ok(())
    }
}
