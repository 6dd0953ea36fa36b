//! CRC32C computed with dedicated processor instructions where available.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
pub(super) use crc_fast::Digest;

pub(super) fn new() -> Digest {
    Digest::new(Crc32Iscsi)
}

#[expect(clippy::cast_possible_truncation, reason = "a CRC32C has 32 bits")]
pub(super) fn value(digest: &Digest) -> u32 {
    digest.finalize() as u32
}
