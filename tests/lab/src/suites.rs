//! Programs of others that test file systems: some of Debian's, some of the registry of crates.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::archive::Archive;
use crate::tools::{at, output, remove};

/// Debian's. They come with the libraries that they need, in `root`, and run where the loader is told of these.
const PACKAGES: &[&str] = &["dbench", "fio"];

/// Crates with programs, and their versions: a newer one may test more, and fail where this one did not.
const CRATES: &[(&str, &str)] = &[("fsx", "0.3.2"), ("pjdfstest", "0.2.2")];

/// What decides over them: they are made again when it changes.
pub(super) fn recipe() -> String {
    format!("1 {PACKAGES:?} {CRATES:?}")
}

/// Whether the archive and the registry of crates have all of them.
pub(super) fn can_be_had(archive: &Archive, cache: &Path) -> Result<(), String> {
    archive.have(PACKAGES)?;
    CRATES.iter().try_for_each(|(name, version)| {
        let mut cargo = cargo(cache);
        output(cargo.arg("info").arg(format!("{name}@{version}"))).map(drop)
    })
}

/// Makes `root`, with Debian's programs, and `bin`, with those of crates.
pub(super) fn build(archive: &Archive, work: &Path, folder: &Path) -> Result<(), String> {
    archive.unpack_all(PACKAGES, &folder.join("root"), "with test suites")?;
    for needless in ["doc", "man", "locale", "lintian"] {
        remove(&folder.join("root/usr/share").join(needless))?;
    }
    // The guest has the C library already, and one loader goes with it only.
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

/// Cargo, elsewhere than in this workspace, whose settings are not theirs.
fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.stdin(Stdio::null());
    cargo
}
