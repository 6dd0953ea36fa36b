//! Checks the archive. `nfs3d` and `nfs3` must run in an empty root directory and in a minimal Debian root,
//! and `nfs3d` must run as a systemd service. `groff` must render the man pages, the shells must parse
//! their completions, and `systemd-analyze` must accept the unit.

mod service;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap_complete::Shell;

use crate::workspace::Workspace;
use crate::{archive, pages, run};

const DEBIAN: &str = "bookworm";
/// The option of `systemd-analyze security` that sets the maximum exposure level of the unit, in tenths.
const EXPOSURE: &str = "--threshold=39";

#[derive(Debug)]
struct NotRun(String);

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotRun {}

fn not_run<T>(why: impl Into<String>) -> Result<T> {
    Err(NotRun(why.into()).into())
}

fn need(program: &str, package: &str) -> Result<()> {
    if run::is_installed(program) {
        Ok(())
    } else {
        not_run(format!("{program} is not installed (package {package})"))
    }
}

struct Unpacked<'a> {
    workspace: &'a Workspace,
    archive: &'a Path,
    scratch: PathBuf,
    /// The top directory of the unpacked archive.
    top: PathBuf,
}

type Check = (&'static str, fn(&Unpacked<'_>) -> Result<()>);

const CHECKS: &[Check] = &[
    ("packing is deterministic", deterministic),
    ("the programs are static", static_programs),
    ("man pages render", man_pages),
    ("bash completions parse", |unpacked| completions(unpacked, Shell::Bash, &["bash", "-n"])),
    ("zsh completions parse", |unpacked| completions(unpacked, Shell::Zsh, &["zsh", "-n"])),
    ("fish completions parse", |unpacked| completions(unpacked, Shell::Fish, &["fish", "--no-execute"])),
    ("the unit is valid", unit),
    ("the unit is hardened", hardened),
    ("nfs3d and nfs3 run in an empty root", empty_root),
    ("nfs3d and nfs3 run in a minimal Debian root", debian_root),
    ("nfs3d runs under its systemd unit", under_systemd),
];

pub(crate) fn run(workspace: &Workspace, archive: &Path) -> Result<()> {
    let scratch = workspace.target.join("dist/check");
    let top = unpack(archive, &scratch.join("archive"))?;
    let unpacked = Unpacked { workspace, archive, scratch, top };
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for (name, check) in CHECKS {
        match check(&unpacked) {
            Ok(()) => println!("passed: {name}"),
            Err(error) if error.is::<NotRun>() => {
                not_run::record(&format!("dist: {name}"), error);
                skipped.push(*name);
            }
            Err(error) => {
                println!("FAILED: {name}: {error:#}");
                failed.push(*name);
            }
        }
    }
    if !skipped.is_empty() {
        // A record with the name of the job. Without it, the ledger would list the job as passed.
        not_run::record("dist", format!("skipped checks: {}", skipped.join("; ")));
    }
    ensure!(failed.is_empty(), "checks of {} failed: {}", archive.display(), failed.join("; "));
    Ok(())
}

/// Replaces the contents of a directory with the unpacked archive, and returns the archive's top directory.
fn unpack(archive: &Path, into: &Path) -> Result<PathBuf> {
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| into.display().to_string())?;
    }
    fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    run::succeed(
        Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(into),
    )?;
    let mut entries = fs::read_dir(into)?;
    let top = entries.next().context("the archive is empty")??.path();
    ensure!(entries.next().is_none(), "the archive has more than one top-level directory");
    Ok(top)
}

fn deterministic(unpacked: &Unpacked<'_>) -> Result<()> {
    let stage = unpacked.workspace.target.join("dist/stage");
    if !stage.exists() {
        return not_run("nothing was built");
    }
    let again = unpacked.scratch.join("again.tar.gz");
    archive::pack(unpacked.workspace, &again)?;
    ensure!(fs::read(&again)? == fs::read(unpacked.archive)?, "packing again produces different bytes");
    Ok(())
}

fn static_programs(unpacked: &Unpacked<'_>) -> Result<()> {
    for program in pages::programs() {
        let path = unpacked.top.join("bin").join(program.name);
        let headers = run::output(Command::new("readelf").args(["--wide", "--program-headers"]).arg(&path));
        let headers = match headers {
            Err(_) if !run::is_installed("readelf") => {
                return not_run("readelf is not installed (package binutils)");
            }
            headers => headers?,
        };
        ensure!(!headers.contains("INTERP"), "{}: dynamically linked", path.display());
        let shown = run::output(Command::new(&path).arg("--version"))?;
        ensure!(shown.contains(&unpacked.workspace.version()?), "{}: wrong version {shown}", path.display());
    }
    Ok(())
}

/// Returns the sorted files of a directory of the archive. Fails if there are fewer files than programs.
fn files(unpacked: &Unpacked<'_>, folder: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(unpacked.top.join(folder)).with_context(|| folder.to_owned())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    ensure!(files.len() >= pages::programs().count(), "{folder} has {} files", files.len());
    Ok(files)
}

fn man_pages(unpacked: &Unpacked<'_>) -> Result<()> {
    need("groff", "groff")?;
    for page in files(unpacked, pages::MAN)? {
        let output = Command::new("groff").args(["-man", "-ww", "-Tutf8", "-P-cbou"]).arg(&page).output()?;
        let warnings = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
        ensure!(String::from_utf8_lossy(&output.stdout).contains("SYNOPSIS"), "{}: no text", page.display());
    }
    Ok(())
}

fn completions(unpacked: &Unpacked<'_>, shell: Shell, parse: &[&str]) -> Result<()> {
    need(parse[0], parse[0])?;
    for (_, folder) in pages::COMPLETIONS.iter().filter(|(of, _)| *of == shell) {
        for file in files(unpacked, folder)? {
            run::succeed(Command::new(parse[0]).args(&parse[1..]).arg(file))?;
        }
    }
    Ok(())
}

/// Runs `systemd-analyze verify` on the unit, which is installed in a separate root.
fn unit(unpacked: &Unpacked<'_>) -> Result<()> {
    need("systemd-analyze", "systemd")?;
    let units = Path::new("/lib/systemd/system");
    if !units.exists() {
        return not_run("/lib/systemd/system is missing (package systemd)");
    }
    let root = fresh(&unpacked.scratch.join("unit"))?;
    for folder in ["etc/systemd/system", "lib/systemd", "usr/bin", "usr/local/bin"] {
        fs::create_dir_all(root.join(folder))?;
    }
    run::succeed(Command::new("cp").arg("-a").arg(units).arg(root.join("lib/systemd")))?;
    fs::copy(unpacked.top.join("bin/nfs3d"), root.join("usr/local/bin/nfs3d"))?;
    // ExecReload= runs a shell.
    fs::create_dir(root.join("bin"))?;
    fs::copy("/bin/sh", root.join("bin/sh"))?;
    fs::copy(unpacked.top.join(archive::UNIT), root.join("etc/systemd/system/nfs3d.service"))?;
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(format!("--root={}", root.display()));
    let output = verify.arg("nfs3d.service").output()?;
    let findings = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !findings.contains("nfs3d"), "{findings}");
    Ok(())
}

fn hardened(unpacked: &Unpacked<'_>) -> Result<()> {
    need("systemd-analyze", "systemd")?;
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=true", EXPOSURE]);
    let output = security.arg(unpacked.top.join(archive::UNIT)).output()?;
    let table = String::from_utf8_lossy(&output.stdout);
    let exposure = table.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_default();
    println!("{}", exposure.trim_start_matches(|c: char| !c.is_ascii()).trim());
    ensure!(
        output.status.success() && !exposure.is_empty(),
        "systemd-analyze security {EXPOSURE} failed: {exposure}"
    );
    Ok(())
}

/// Creates an empty directory. Replaces an existing directory.
fn fresh(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| path.display().to_string())?;
    }
    fs::create_dir_all(path).with_context(|| path.display().to_string())?;
    Ok(path.to_path_buf())
}

fn empty_root(unpacked: &Unpacked<'_>) -> Result<()> {
    can_chroot()?;
    let root = fresh(&unpacked.scratch.join("empty"))?;
    for folder in ["proc", "tmp"] {
        fs::create_dir(root.join(folder))?;
    }
    for program in ["nfs3", "nfs3d"] {
        fs::copy(unpacked.top.join("bin").join(program), root.join(program))?;
    }
    serve_and_use(&root, "")
}

fn debian_root(unpacked: &Unpacked<'_>) -> Result<()> {
    can_chroot()?;
    let root = debian(unpacked)?;
    let top = unpack(unpacked.archive, &root.join("opt/rpcrdma"))?;
    let folder = top.strip_prefix(&root)?.join("bin");
    serve_and_use(&root, &format!("/{}", folder.display()))
}

fn under_systemd(unpacked: &Unpacked<'_>) -> Result<()> {
    can_chroot()?;
    service::check(unpacked, &debian(unpacked)?)
}

/// Returns a minimal Debian root with systemd. Creates the root unless it already exists and is complete.
fn debian(unpacked: &Unpacked<'_>) -> Result<PathBuf> {
    let root = unpacked.scratch.join(DEBIAN);
    // debootstrap leaves a partial tree if it fails.
    let complete = ["var/lib/dpkg/status", "etc/debian_version", "lib/systemd/systemd"];
    if complete.iter().any(|file| !root.join(file).exists()) || root.join("debootstrap").exists() {
        need("debootstrap", "debootstrap")?;
        fresh(&root)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include=systemd-sysv", DEBIAN]).arg(&root);
        if let Err(error) = run::succeed(debootstrap.stdout(Stdio::null())) {
            return not_run(format!("cannot create a Debian root: {error:#}"));
        }
    }
    Ok(root)
}

fn can_chroot() -> Result<()> {
    let status = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) { Ok(()) } else { not_run("needs root and `unshare`") }
}

/// Returns a command that runs `program` with `root` as its root directory. The command mounts /proc in a
/// separate mount namespace.
fn inside(root: &Path, program: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;
    command.args(["--mount", "sh", "-c", script]).arg(root).arg(program).stdin(Stdio::null());
    command
}

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `nfs3d` and `nfs3` in a root. The client puts, lists and gets a file.
fn serve_and_use(root: &Path, bin: &str) -> Result<()> {
    let local = fresh(&root.join("tmp/check"))?;
    fs::create_dir(local.join("export"))?;
    let data: Vec<u8> =
        (0..300_007_u32).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(local.join("data"), &data)?;

    let mut server = inside(root, &format!("{bin}/nfs3d"));
    server.args(["--listen", "127.0.0.1:0", "--no-root-squash", "--handle-key", "/tmp/check/state/key"]);
    server.arg("/tmp/check/export").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Running(server.spawn()?);
    let stdout = server.0.stdout.take().context("no standard output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let url = line.split_whitespace().find(|word| word.starts_with("rdma://"));
    let url = url.with_context(|| format!("nfs3d did not print its address: {line:?}"))?;

    let client = |arguments: &[&str]| run::output(inside(root, &format!("{bin}/nfs3")).args(arguments));
    let file = format!("{url}file");
    client(&["put", "--verify", "/tmp/check/data", &file])?;
    let listed = client(&["ls", url])?;
    ensure!(listed == "file", "nfs3 ls: {listed:?}");
    client(&["get", &file, "/tmp/check/back"])?;
    for copy in ["export/file", "back"] {
        if fs::read(local.join(copy))? != data {
            bail!("{copy} differs from the file that `nfs3 put` copied");
        }
    }
    Ok(())
}
