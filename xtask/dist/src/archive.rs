//! The archive: statically linked programs and the files installed with them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{Workspace, triple};
use crate::{licenses, pages, run};

/// Files that are copied unchanged, with their paths in the archive.
const FILES: &[(&str, &str)] = &[
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("nfs/dist/Containerfile", "Containerfile"),
    ("nfs/dist/INSTALL", "INSTALL"),
    ("nfs/dist/nfs3d.service", UNIT),
    ("nfs/dist/nfs3d.socket", "lib/systemd/system/nfs3d.socket"),
    ("nfs/dist/nfs3d.toml", "etc/nfs3d.toml"),
];

/// The systemd unit, relative to the archive's top directory.
pub(crate) const UNIT: &str = "lib/systemd/system/nfs3d.service";

/// Returns the archive's name without its extension, which is also the name of the top directory.
pub(crate) fn name(workspace: &Workspace) -> Result<String> {
    Ok(format!("rpcrdma-{}-{}-linux-musl", workspace.version()?, env::consts::ARCH))
}

pub(crate) fn path(workspace: &Workspace) -> Result<PathBuf> {
    Ok(workspace.target.join("dist").join(name(workspace)? + ".tar.gz"))
}

pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let programs = compile(workspace)?;
    let staged = workspace.target.join("dist/stage");
    if staged.exists() {
        fs::remove_dir_all(&staged).with_context(|| staged.display().to_string())?;
    }
    let top = staged.join(name(workspace)?);
    fs::create_dir_all(top.join("bin"))?;
    for program in pages::programs() {
        let from = programs.join(program.name);
        fs::copy(&from, top.join("bin").join(program.name)).with_context(|| from.display().to_string())?;
    }
    for (from, to) in FILES {
        let to = top.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&top))?;
        fs::copy(workspace.root.join(from), to).with_context(|| (*from).to_owned())?;
    }
    fs::write(top.join("LICENSES-THIRD-PARTY"), licenses::third_party(workspace)?)?;
    pages::write(&top)?;
    let archive = path(workspace)?;
    pack(workspace, &archive)?;
    println!("{}: {} bytes", archive.display(), fs::metadata(&archive)?.len());
    Ok(archive)
}

fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let triple = triple();
    let libraries =
        run::output(Command::new("rustc").args(["--print", "target-libdir", "--target", &triple]))?;
    if !Path::new(&libraries).exists() {
        bail!("no standard library for {triple}; run `rustup target add {triple}`");
    }
    let mut command = workspace.cargo();
    command.args(["build", "--locked", "--profile", "dist", "--target", &triple]);
    for shipped in pages::SHIPPED {
        command.args(["--package", shipped.package]);
        for feature in shipped.features {
            // The form `PACKAGE/FEATURE` is not used, since rpcrdma-xdrgen is its own development dependency.
            command.args(["--features", feature]);
        }
        for program in shipped.programs {
            command.args(["--bin", program.name]);
        }
    }
    run::succeed(command.env("CARGO_ENCODED_RUSTFLAGS", flags(workspace)?))?;
    Ok(workspace.target.join(triple).join("dist"))
}

/// Returns rustc flags that keep this machine's paths out of the programs.
fn flags(workspace: &Workspace) -> Result<String> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(env::home_dir()?.join(".cargo"))).context("no home directory")?;
    let registry = format!("--remap-path-prefix={}=registry", cargo.join("registry/src").display());
    let root = format!("--remap-path-prefix={}=.", workspace.root.display());
    Ok([registry, root].join("\x1f"))
}

/// Packs the staged files. The same files and date give the same archive, byte for byte.
pub(crate) fn pack(workspace: &Workspace, archive: &Path) -> Result<()> {
    let modified = match env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        Err(_) => workspace.git(&["log", "-1", "--format=%ct"]).unwrap_or_else(|_| "0".to_owned()),
    };
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip -9 --no-name"]);
    tar.arg(format!("--mtime=@{modified}")).arg("--file").arg(archive);
    run::succeed(tar.arg("--directory").arg(workspace.target.join("dist/stage")).arg(name(workspace)?))
}
