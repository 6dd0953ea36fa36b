//! Identifiers of procedures and chunks.

/// A procedure of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CalledProcedure {
    /// The program number.
    pub program: u32,
    /// The program version.
    pub version: u32,
    /// The procedure number.
    pub procedure: u32,
}

/// A chunk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// The Read chunk at this position. The chunk at position zero contains the RPC message itself.
    Read(u32),
    /// The Write chunk with this number in the Write list, counted from 1.
    Write(usize),
    /// The Reply chunk.
    Reply,
}
