//! Third-party test suites for file systems, from Debian and crates.io.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::archive::Archive;
use crate::tools::{at, output, remove};

/// The Debian packages, which are unpacked into `root` together with their libraries. To run the programs,
/// pass the path of these libraries to the dynamic loader.
const PACKAGES: &[&str] = &["dbench", "fio"];

/// The crates and their versions. The versions are fixed, because a newer version may have additional tests
/// that fail.
const CRATES: &[(&str, &str)] = &[("fsx", "0.3.2"), ("pjdfstest", "0.2.2")];

/// Returns a description of the build inputs. A changed description causes a rebuild.
pub(super) fn recipe() -> String {
    format!("1 {PACKAGES:?} {CRATES:?}")
}

pub(super) fn check_available(archive: &Archive, cache: &Path) -> Result<(), String> {
    archive.have(PACKAGES)?;
    CRATES.iter().try_for_each(|(name, version)| {
        let mut cargo = cargo(cache);
        output(cargo.arg("info").arg(format!("{name}@{version}"))).map(drop)
    })
}

pub(super) fn build(archive: &Archive, work: &Path, folder: &Path) -> Result<(), String> {
    archive.unpack_all(PACKAGES, &folder.join("root"), "with test suites")?;
    for unneeded in ["doc", "man", "locale", "lintian"] {
        remove(&folder.join("root/usr/share").join(unneeded))?;
    }
    // Remove the unpacked C library: the guest's loader works only with the guest's own C library.
    let libraries = folder.join("root/lib/x86_64-linux-gnu");
    for entry in fs::read_dir(&libraries).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if ["libc.", "libm.", "libpthread.", "libdl.", "librt.", "ld-linux"]
            .iter()
            .any(|start| name.to_string_lossy().starts_with(start))
        {
            fs::remove_file(entry.path()).map_err(at(&libraries))?;
        }
    }
    for (name, version) in CRATES {
        eprintln!("lab: building {name} {version}");
        install(name, version, work, folder)?;
    }
    remove(work)
}

fn install(name: &str, version: &str, work: &Path, folder: &Path) -> Result<(), String> {
    let mut cargo = cargo(folder);
    cargo.args(["install", "--locked", name, "--version", version]).arg("--root").arg(folder);
    output(cargo.arg("--target-dir").arg(work)).map(drop)
}

/// Returns a command that runs cargo in `folder`, outside this workspace, so that the workspace's settings do
/// not apply.
fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.stdin(Stdio::null());
    cargo
}
