//! What procedures and chunks are found by.

/// A procedure of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Called {
    /// Program number.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
}

/// A chunk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// A Read chunk by its position; at zero the message itself.
    Read(u32),
    /// A Write chunk by its place in the list, from 1.
    Write(usize),
    /// The Reply chunk.
    Reply,
}
