//! The contents of the test files.

use bytes::Bytes;
use rpcrdma_tools::cli::nfs3bench::MAX_TRANSFER;

/// The size of a test file in bytes.
pub(crate) const SIZE: usize = 16 << 20;
/// The maximum number of bytes in a call that fills or checks a file.
pub(crate) const PIECE: usize = MAX_TRANSFER;
/// The memory alignment for direct I/O, in bytes.
const PAGE: usize = 4096;

/// The initial contents of a file, and the data written to it. All 64-bit words differ.
pub(crate) struct Images {
    pub(crate) old: Bytes,
    pub(crate) new: Bytes,
}

impl Images {
    pub(crate) fn new() -> Self {
        Images { old: image(1), new: image(2) }
    }
}

fn image(seed: u64) -> Bytes {
    let mut memory: Vec<u8> = Vec::with_capacity(SIZE + PAGE);
    let skip = memory.as_ptr().align_offset(PAGE);
    memory.resize(skip, 0);
    let word = |index: u64| (index << 2 | seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..).map(word).take(SIZE / 8).for_each(|word| memory.extend_from_slice(&word.to_le_bytes()));
    Bytes::from(memory).slice(skip..)
}

pub(crate) struct Aligned {
    memory: Vec<u8>,
    skip: usize,
    size: usize,
}

impl Aligned {
    pub(crate) fn new(size: usize) -> Self {
        let memory = vec![0; size + PAGE];
        let skip = memory.as_ptr().align_offset(PAGE);
        Aligned { memory, skip, size }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.size]
    }
}

/// Returns true if the length and the first and last words of the data are as expected.
///
/// The complete file is compared only outside of measurements, by `TestFile::check`.
pub(crate) fn looks_like(data: &[u8], expected: &[u8]) -> bool {
    data.len() == expected.len()
        && data.first_chunk::<8>() == expected.first_chunk::<8>()
        && data.last_chunk::<8>() == expected.last_chunk::<8>()
}
