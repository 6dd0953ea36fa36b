//! CRC32C computed with a table, for builds without the standard library.

use crc::{CRC_32_ISCSI, Crc};

static TABLE: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

pub(super) type Digest = crc::Digest<'static, u32>;

pub(super) fn new() -> Digest {
    TABLE.digest()
}

pub(super) fn value(digest: &Digest) -> u32 {
    digest.clone().finalize()
}
