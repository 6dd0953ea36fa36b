//! Debian's kernel for the guest, and the module siw (software iWARP). Debian does not build siw, so the lab
//! builds siw from the source of the same kernel.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::archive::{Archive, unpack};
use crate::tools::{at, command, output, pipe, remove};

/// The modules that the guest needs besides siw. The build adds their dependencies and those of siw.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "virtio_rng",
    "9p",
    "9pnet_virtio",
    "ib_core",
    "rdma_cm",
    "rpcrdma",
    "sunrpc",
    "nfsd",
    "nfs",
    "nfsv3",
    "nfsv4",
    "lockd",
    "crc32c_generic",
    "crc32c_intel",
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "rpcsec_gss_krb5",
    "cts",
];

/// Returns a description of the build inputs. A changed description causes a rebuild.
pub(super) fn recipe() -> String {
    format!("4 {}\n{FIXES:?}{PEER_TO_PEER:?}", MODULES.join(" "))
}

const SIW: &str = "drivers/infiniband/sw/siw";

/// Fixes for siw: file, original text and replacement.
const FIXES: &[(&str, &str, &str)] = &[
    // siw does not process data that arrived on an accepted connection before siw set the socket callbacks.
    (
        "siw_cm.c",
        "\t\trv = siw_cm_upcall(cep, IW_CM_EVENT_ESTABLISHED, 0);\n\t\tif (rv)\n\t\t\tgoto error;\n",
        "\t\trv = siw_cm_upcall(cep, IW_CM_EVENT_ESTABLISHED, 0);\n\t\tif (rv)\n\t\t\tgoto error;\n\
         \t\tif (cep->sock) {\n\t\t\tstruct sock *early = cep->sock->sk;\n\n\
         \t\t\tlock_sock(early);\n\t\t\tlocal_bh_disable();\n\t\t\tearly->sk_data_ready(early);\n\
         \t\t\tlocal_bh_enable();\n\t\t\trelease_sock(early);\n\t\t}\n",
    ),
    // If padding and CRC are split across two TCP segments, siw overwrites the first part with the second
    // part, and treats the FPDU as corrupt. Networks that resegment the TCP stream, such as QEMU's, trigger
    // this bug.
    (
        "siw_qp_rx.c",
        "\tskb_copy_bits(skb, srx->skb_offset, tbuf, avail);\n",
        "\tskb_copy_bits(skb, srx->skb_offset,\n\t\t      tbuf + srx->pad + sizeof(srx->trailer.crc) - srx->fpdu_part_rem,\n\
         \t\t      avail);\n",
    ),
];

/// The change that makes siw request peer-to-peer connections (RFC 6581 section 9.2). In siw, this setting is
/// a compile-time constant.
const PEER_TO_PEER: &(&str, &str, &str) =
    &("siw_main.c", "\nconst bool peer_to_peer;\n", "\nconst bool peer_to_peer = true;\n");

struct Packages {
    version: String,
    /// The kernel release, for example `6.1.0-1-amd64`.
    abi: String,
    image: String,
    headers: Vec<String>,
    source: String,
}

/// Returns the packages of the newest kernel version of a series. Skips versions for which the archive lacks
/// a package.
fn look_up(archive: &Archive, series: &str) -> Result<Packages, String> {
    for meta in [format!("linux-headers-{series}-amd64"), "linux-headers-amd64".to_owned()] {
        for known in archive.versions(&meta) {
            let found = known.depends.iter().find_map(|(name, version)| {
                let abi = name.strip_prefix("linux-headers-")?;
                complete(archive, series, abi, version.as_ref()?)
            });
            if let Some(packages) = found.filter(|found| found.version.starts_with(&format!("{series}."))) {
                return Ok(packages);
            }
        }
    }
    Err(format!(
        "the archive has no Linux {series} version with linux-image, linux-headers, linux-kbuild and linux-source \
         for amd64"
    ))
}

pub(super) fn check_available(archive: &Archive, series: &str) -> Result<(), String> {
    look_up(archive, series).map(drop)
}

fn complete(archive: &Archive, series: &str, abi: &str, version: &str) -> Option<Packages> {
    let has = |package: &str| archive.versions(package).into_iter().find(|known| known.version == version);
    let plain = format!("linux-image-{abi}");
    let image = [plain.clone(), format!("{plain}-unsigned")].into_iter().find(|name| has(name).is_some())?;
    let source = format!("linux-source-{series}");
    has(&source)?;
    let headers = format!("linux-headers-{abi}");
    let parts = has(&headers)?.depends.into_iter().map(|(name, _)| name);
    let parts = parts.filter(|name| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-"));
    let parts: Vec<String> = parts.collect();
    if !parts.iter().all(|name| has(name).is_some()) {
        return None;
    }
    let headers = std::iter::once(headers).chain(parts).collect();
    let (version, abi) = (version.to_owned(), abi.to_owned());
    Some(Packages { version, abi, image, headers, source })
}

/// Creates in `folder` the kernel, the variants of siw, the file `version`, and the tree `modules/lib` for
/// the guest's /usr/lib.
pub(super) fn build(archive: &Archive, series: &str, folder: &Path) -> Result<(), String> {
    let packages = look_up(archive, series)?;
    let work = folder.join("work");
    eprintln!("lab: fetching Linux {}", packages.version);
    let fetch = |names: &[String], to: &str| {
        let named: Vec<String> = names.iter().map(|name| format!("{name}={}", packages.version)).collect();
        archive.download(&named, &work.join(to))
    };
    for package in fetch(std::slice::from_ref(&packages.image), "image-packages")? {
        unpack(&package, &work.join("image"))?;
    }
    for package in fetch(&packages.headers, "header-packages")? {
        unpack(&package, &work.join("headers"))?;
    }
    let sources = fetch(std::slice::from_ref(&packages.source), "source-package")?;
    let source = sources.first().ok_or("apt-get did not download the source package")?;
    eprintln!("lab: building siw for Linux {}", packages.abi);
    build_siw(&packages, source, &work, folder)?;
    let image = work.join("image");
    pick_modules(&image, &packages.abi, folder)?;
    let kernel = format!("boot/vmlinuz-{}", packages.abi);
    fs::copy(image.join(&kernel), folder.join("vmlinuz")).map_err(at(&image.join(kernel)))?;
    let words = format!("{} {}\n", packages.version, packages.abi);
    fs::write(folder.join("version"), words).map_err(at(folder))?;
    remove(&work)
}

fn build_siw(packages: &Packages, source: &Path, work: &Path, folder: &Path) -> Result<(), String> {
    let headers = work.join("headers");
    let tree = relocate(&headers, &packages.abi)?;
    let archive = format!("./usr/src/{}.tar.xz", packages.source);
    pipe(
        command("dpkg-deb").arg("--fsys-tarfile").arg(source),
        command("tar").args(["-x", "-C"]).arg(work).arg(&archive),
    )?;
    let siw = format!("{}/{SIW}", packages.source);
    output(command("tar").args(["-xJf"]).arg(work.join(&archive)).arg("-C").arg(work).arg(&siw))?;
    let siw = work.join(siw);
    let make = |module: &str| {
        let mut make = command("make");
        make.arg("-C").arg(&tree).arg(format!("M={}", siw.display()));
        // BTF type information is unused here and would need another tool.
        make.args(["CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]);
        output(&mut make)?;
        output(
            command("strip").args(["--strip-debug", "-o"]).arg(folder.join(module)).arg(siw.join("siw.ko")),
        )
    };
    make("siw-stock.ko")?;
    FIXES.iter().try_for_each(|change| replace(&siw, &packages.version, change))?;
    make("siw.ko")?;
    replace(&siw, &packages.version, PEER_TO_PEER)?;
    make("siw-peers.ko").map(drop)
}

fn replace(siw: &Path, version: &str, (file, old, new): &(&str, &str, &str)) -> Result<(), String> {
    let path = siw.join(file);
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    if text.matches(old).count() != 1 {
        return Err(format!(
            "{file} of siw in Linux {version} does not contain the expected text exactly once"
        ));
    }
    fs::write(&path, text.replace(old, new)).map_err(at(&path))
}

/// Redirects the links and paths in the unpacked headers from the installation directories to the unpacked
/// files. Returns the directory for building modules.
fn relocate(headers: &Path, abi: &str) -> Result<PathBuf, String> {
    let sources = headers.join("usr/src");
    for entry in fs::read_dir(&sources).map_err(at(&sources))?.flatten() {
        for link in ["scripts", "tools"] {
            let link = entry.path().join(link);
            if let Ok(target) = fs::read_link(&link)
                && let Ok(inside) = target.strip_prefix("/")
            {
                fs::remove_file(&link).map_err(at(&link))?;
                symlink(headers.join(inside), &link).map_err(at(&link))?;
            }
        }
    }
    let tree = sources.join(format!("linux-headers-{abi}"));
    let makefile = tree.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(at(&makefile))?;
    let text = text.replace("/usr/src/", &format!("{}/", sources.display()));
    fs::write(&makefile, text).map_err(at(&makefile))?;
    Ok(tree)
}

fn pick_modules(image: &Path, abi: &str, folder: &Path) -> Result<(), String> {
    output(command("depmod").arg("-b").arg(image).arg(abi))?;
    let from = image.join("lib/modules").join(abi);
    let index = fs::read_to_string(from.join("modules.dep")).map_err(at(&from))?;
    let root = folder.join("modules");
    let to = root.join("lib/modules").join(abi);
    let needs = output(command("modinfo").args(["-F", "depends"]).arg(folder.join("siw.ko")))?;
    let wanted: Vec<&str> = MODULES.iter().copied().chain(needs.trim().split(',')).collect();
    for path in closure(&index, &wanted) {
        let (source, target) = (from.join(path), to.join(path.trim_end_matches(".xz")));
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        fs::copy(&source, to.join(path)).map_err(at(&source))?;
        if path.ends_with(".xz") {
            output(command("xz").arg("-d").arg(to.join(path)))?;
        }
    }
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        // Optional: without these files, depmod only prints a warning.
        let _ = fs::copy(from.join(list), to.join(list));
    }
    fs::create_dir_all(to.join("extra")).map_err(at(&to))?;
    fs::copy(folder.join("siw.ko"), to.join("extra/siw.ko")).map_err(at(&to))?;
    output(command("depmod").arg("-b").arg(&root).arg(abi)).map(drop)
}

/// Returns the files of modules and their dependencies, from the index of depmod (`file: file file ...`).
///
/// Modules without a file are ignored: they are built into the kernel or exist only in other versions.
fn closure<'a>(index: &'a str, modules: &[&str]) -> BTreeSet<&'a str> {
    let name = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.split('.').next().unwrap_or(file).replace('-', "_")
    };
    let lines = index.lines().filter_map(|line| line.split_once(':'));
    let wanted = lines.filter(|(path, _)| modules.contains(&name(path).as_str()));
    wanted.flat_map(|(path, needs)| std::iter::once(path).chain(needs.split_whitespace())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_modules_are_included() {
        let index =
            "kernel/net/a-b.ko.xz: kernel/net/c.ko\nkernel/net/c.ko:\nkernel/net/d.ko: kernel/net/c.ko\n";
        let files = closure(index, &["a_b", "built_in"]);
        assert_eq!(files.into_iter().collect::<Vec<_>>(), ["kernel/net/a-b.ko.xz", "kernel/net/c.ko"]);
    }
}
