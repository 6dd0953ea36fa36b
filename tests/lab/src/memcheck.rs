//! Valgrind, with the C library and the libraries of RDMA devices that it looks into: a tree of its own, since its debugging
//! symbols must be those of the very library that runs.

use std::fs;
use std::path::Path;

use crate::archive::Archive;
use crate::tools::{at, remove};

/// What is unpacked, besides the libraries that these need.
pub(super) const PACKAGES: &[&str] =
    &["ibverbs-providers", "libc6", "libc6-dbg", "libgcc-s1", "libibverbs1", "librdmacm1", "valgrind"];

/// Where the guest mounts what every program expects.
const EMPTY: &[&str] = &["dev", "proc", "sys", "tmp"];

/// What decides over it: it is made again when it changes.
pub(super) fn recipe() -> String {
    format!("1 {PACKAGES:?} {EMPTY:?}")
}

/// Makes the tree, in `folder/root`.
pub(super) fn build(archive: &Archive, folder: &Path) -> Result<(), String> {
    let root = folder.join("root");
    for name in EMPTY {
        fs::create_dir_all(root.join(name)).map_err(at(&root.join(name)))?;
    }
    archive.unpack_all(PACKAGES, &root, "with valgrind")?;
    ["doc", "man", "locale", "lintian"].iter().try_for_each(|name| remove(&root.join("usr/share").join(name)))
}
