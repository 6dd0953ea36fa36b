//! A separate directory tree with valgrind, the C library and the RDMA libraries. Valgrind needs debugging
//! symbols that match the C library exactly.

use std::fs;
use std::path::Path;

use crate::archive::Archive;
use crate::tools::{at, remove};

/// The packages to unpack. [`Archive::unpack_all`] adds the libraries that they need.
pub(super) const PACKAGES: &[&str] =
    &["ibverbs-providers", "libc6", "libc6-dbg", "libgcc-s1", "libibverbs1", "librdmacm1", "valgrind"];

/// Empty directories where the guest mounts file systems.
const EMPTY: &[&str] = &["dev", "proc", "sys", "tmp"];

/// Returns a description of the build inputs. A changed description causes a rebuild.
pub(super) fn recipe() -> String {
    format!("1 {PACKAGES:?} {EMPTY:?}")
}

pub(super) fn build(archive: &Archive, folder: &Path) -> Result<(), String> {
    let root = folder.join("root");
    for name in EMPTY {
        fs::create_dir_all(root.join(name)).map_err(at(&root.join(name)))?;
    }
    archive.unpack_all(PACKAGES, &root, "with valgrind")?;
    ["doc", "man", "locale", "lintian"].iter().try_for_each(|name| remove(&root.join("usr/share").join(name)))
}
