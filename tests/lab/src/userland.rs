//! The user space of the guest: unpacked Debian packages and our scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::archive::Archive;
use crate::tools::{at, output, remove};

/// The packages to unpack. [`Archive::unpack_all`] adds the libraries that they need.
pub(super) const PACKAGES: &[&str] = &[
    "bash",
    "busybox-static",
    "coreutils",
    "ibverbs-providers",
    "iproute2",
    "kmod",
    "libibverbs1",
    "librdmacm1",
    "mount",
    "netbase",
    "nfs-common",
    "nfs-kernel-server",
    "rpcbind",
    "rsync",
];

const NEEDLESS: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "usr/lib/systemd",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl-base",
];

/// Directories that the build creates before it unpacks packages.
const EMPTY: &[&str] = &[
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "root",
    "mnt",
    "export",
    "lab",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "etc",
    "var/lib/nfs/rpc_pipefs",
    "var/lib/nfs/sm",
    "var/lib/nfs/sm.bak",
    "var/lib/nfs/v4recovery",
];

const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0::/root:/bin/sh\n_rpc:x:101:65534::/run:/bin/false\nstatd:x:102:65534::/run:/bin/false\n\
                    user:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/false\n",
    ),
    ("etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n10.0.2.15 guest\n10.0.2.2 host\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\nrpc: files\n",
    ),
    ("etc/exports", "/export *(rw,fsid=1,no_root_squash,no_subtree_check,insecure)\n"),
    ("var/lib/nfs/etab", ""),
    ("var/lib/nfs/rmtab", ""),
];

/// The guest's scripts: the init process, the agent, and scripts that set up rxe, siw and knfsd.
pub(super) const SCRIPTS: &[(&str, &str)] = &[
    ("init", include_str!("../../interop/guest/init")),
    ("lab/agent", include_str!("../../interop/guest/agent")),
    ("lab/rxe", include_str!("../../interop/guest/rxe")),
    ("lab/siw", include_str!("../../interop/guest/siw")),
    ("lab/knfsd", include_str!("../../interop/guest/knfsd")),
];

/// Returns a description of the build inputs. A changed description causes a rebuild.
pub(super) fn recipe() -> String {
    format!("2 {} {NEEDLESS:?} {EMPTY:?} {FILES:?}", PACKAGES.join(" "))
}

/// Creates the guest's directory tree in `folder/root`, without kernel modules or our scripts.
pub(super) fn build(archive: &Archive, folder: &Path) -> Result<(), String> {
    let root = folder.join("root");
    for name in EMPTY {
        fs::create_dir_all(root.join(name)).map_err(at(&root.join(name)))?;
    }
    // Some packages contain /bin, and others /usr/bin. With these links, the files of both are unpacked to
    // /usr/bin. The same applies to sbin, lib and lib64.
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name)).map_err(at(&root.join(name)))?;
    }
    symlink("../run", root.join("var/run")).map_err(at(&root))?;
    archive.unpack_all(PACKAGES, &root, "for the guest")?;
    for name in NEEDLESS {
        remove(&root.join(name))?;
    }
    for (name, text) in FILES {
        fs::write(root.join(name), text).map_err(at(&root.join(name)))?;
    }
    // Some programs fail if this list of mounts does not exist.
    symlink("/proc/self/mounts", root.join("etc/mtab")).map_err(at(&root))?;
    link_applets(&root)
}

/// Creates a link to busybox for every applet that no package provides.
fn link_applets(root: &Path) -> Result<(), String> {
    let busybox =
        ["usr/bin/busybox", "bin/busybox"].map(|path| root.join(path)).into_iter().find(|it| it.is_file());
    let busybox = busybox.ok_or("the package busybox-static does not contain busybox")?;
    for applet in output(Command::new(busybox).arg("--list"))?.lines() {
        let taken = ["usr/bin", "usr/sbin"].iter().any(|folder| root.join(folder).join(applet).exists());
        let link = root.join("usr/bin").join(applet);
        if !taken && link.symlink_metadata().is_err() {
            symlink("busybox", &link).map_err(at(&link))?;
        }
    }
    Ok(())
}
