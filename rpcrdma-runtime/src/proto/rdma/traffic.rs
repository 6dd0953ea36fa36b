use core::fmt;

/// How one call and its reply travelled. Lengths in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The call's Send, header included.
    pub call_inline: u64,
    /// Read chunks other than the Position-Zero chunk: the items that the call moved out of its stream.
    pub read_chunks: u32,
    /// What they held.
    pub read_bytes: u64,
    /// The Position-Zero Read chunk: the length of the stream that travelled in it, 0 if there was none.
    pub position_zero: u64,
    /// Write chunks that were offered.
    pub write_chunks: u32,
    /// What came in them.
    pub write_bytes: u64,
    /// Whether a Reply chunk was offered.
    pub reply_chunk: bool,
    /// What came in it.
    pub reply_chunk_bytes: u64,
    /// The reply's Send, header included.
    pub reply_inline: u64,
    /// Segments of all chunks of the call.
    pub segments: u32,
    /// The reply invalidated a handle (Send with Invalidate).
    pub remote_invalidation: bool,
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inline {}/{}", self.call_inline, self.reply_inline)?;
        if self.read_chunks > 0 {
            write!(f, ", {} by {} Read chunk(s)", self.read_bytes, self.read_chunks)?;
        }
        if self.position_zero > 0 {
            write!(f, ", call of {} by Position-Zero Read chunk", self.position_zero)?;
        }
        if self.write_bytes > 0 {
            write!(f, ", {} by Write chunk", self.write_bytes)?;
        }
        if self.reply_chunk_bytes > 0 {
            write!(f, ", reply of {} by Reply chunk", self.reply_chunk_bytes)?;
        }
        Ok(())
    }
}
