//! Runs `nfs3d` as the service `nfs3d.service`, in a container that systemd-nspawn boots.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Unpacked, need, not_run};
use crate::{archive, run};

/// The numbers of CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETGID, CAP_SETUID and CAP_MKNOD
/// (linux/capability.h).
const CAPABILITIES: [u32; 7] = [0, 1, 3, 4, 6, 7, 27];
/// The user ID and group ID of the unprivileged caller.
const CALLER: u32 = 1234;
/// Time limit for the start of the service, the effect of a reload, and the end of the container.
const LIMIT: Duration = Duration::from_secs(90);

/// Boots a Debian root in which the service is enabled. The service must have only the capabilities of its
/// unit, log what it may do, act as its callers, and write only where the unit allows it. The service must
/// also reload its configuration and stop.
pub(super) fn check(unpacked: &Unpacked<'_>, root: &Path) -> Result<()> {
    need("systemd-nspawn", "systemd-container")?;
    if let Err(error) = run::output(nspawn(root).arg("true")) {
        return not_run(format!("cannot run a container: {error:#}"));
    }
    let port = install(unpacked, root)?;
    let mut container = Container::boot(root)?;
    let system = container.wait_for("start of nfs3d", |system| {
        run::output(inside(system).args(["is-active", "nfs3d"])).is_ok().then_some(system)
    })?;
    check_confinement(system)?;
    // journald may store the log after the start.
    container.wait_for("log of what nfs3d may do", |_| {
        let status =
            run::output(inside(system).args(["status", "--lines=50", "--no-pager", "--full", "nfs3d"]));
        status.ok().filter(|status| status.contains("acts as each caller"))
    })?;

    // The build may be in a private home directory, which the unprivileged caller cannot read.
    let local = tempfile::tempdir()?;
    fs::set_permissions(&local, fs::Permissions::from_mode(0o755))?;
    let (program, data) = (local.path().join("nfs3"), local.path().join("data"));
    fs::copy(unpacked.top.join("bin/nfs3"), &program)?;
    fs::write(&data, "served by systemd")?;
    let client = Client { program, data, url: format!("rdma://127.0.0.1:{port}") };
    client.put("data/file")?;
    let stored = root.join("srv/data/file");
    ensure!(fs::read(&stored)? == fs::read(&client.data)?, "the stored file differs from the client's file");
    ensure!(fs::metadata(&stored)?.uid() == CALLER, "the stored file does not belong to its creator");
    client.is_refused("system/file")?;

    let config = root.join(CONFIG);
    fs::write(&config, fs::read_to_string(&config)?.replace("read-only = false", "read-only = true"))?;
    run::output(inside(system).args(["reload", "nfs3d"]))?;
    // systemctl may return before the server has read the changed configuration.
    container.wait_for("effect of the reload", |_| client.is_refused("data/file").ok())?;
    container.stop()
}

/// Returns a command that runs `systemctl` in the container whose first process has the PID `system`.
fn inside(system: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={system}")).args(["--all", "systemctl"]);
    command
}

/// The process of systemd-nspawn. All processes of the container are killed on drop.
struct Container(Child);

impl Container {
    fn boot(root: &Path) -> Result<Self> {
        let mut command = nspawn(root);
        Ok(Container(command.arg("--boot").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
    }

    /// Calls `attempt` with the PID of the container's first process until `attempt` returns a value. Fails
    /// if the container ends, or after [`LIMIT`].
    fn wait_for<T>(&mut self, what: &str, mut attempt: impl FnMut(u32) -> Option<T>) -> Result<T> {
        poll(what, || {
            if let Some(status) = self.0.try_wait()? {
                bail!("no {what}: the container ended ({status})");
            }
            Ok(first_child(self.0.id()).and_then(&mut attempt))
        })
    }

    /// Shuts the container down. On SIGTERM, systemd-nspawn asks the container's systemd to shut down.
    fn stop(mut self) -> Result<()> {
        signal(self.0.id(), "TERM")?;
        let status = poll("shutdown of the container", || Ok(self.0.try_wait()?))?;
        ensure!(status.success(), "the container failed: {status}");
        Ok(())
    }
}

/// Repeats an attempt until it returns a value. Fails if an attempt fails, or after [`LIMIT`].
fn poll<T>(what: &str, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(result) = attempt()? {
            return Ok(result);
        }
        ensure!(start.elapsed() < LIMIT, "no {what} after {LIMIT:?}");
        sleep(Duration::from_millis(100));
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // Killing systemd-nspawn leaves the container running. Killing the container's first process ends
            // the container.
            if let Some(system) = first_child(self.0.id()) {
                let _ = signal(system, "KILL");
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Sends a signal with the shell's own `kill`, because /bin/kill may be missing.
fn signal(process: u32, name: &str) -> Result<()> {
    run::succeed(Command::new("sh").args(["-c", &format!("kill -{name} {process}")]))
}

/// The configuration file, relative to the root.
const CONFIG: &str = "etc/nfs3d.toml";

/// Returns a `systemd-nspawn` command for the root. The caller adds a program or `--boot`. The container
/// uses this machine's network, and does not depend on this machine's systemd.
fn nspawn(root: &Path) -> Command {
    let mut command = Command::new("systemd-nspawn");
    command.args(["--quiet", "--register=no", "--keep-unit", "--console=pipe", "--machine=nfs3d"]);
    command.arg("--directory").arg(root);
    command
}

/// Installs and enables the service, which exports `/srv/data` and `/opt/system`. Of these, the unit makes
/// only `/srv/data` writable. Returns the service's port.
fn install(unpacked: &Unpacked<'_>, root: &Path) -> Result<u16> {
    let units = root.join("etc/systemd/system");
    let enabled = units.join("multi-user.target.wants");
    fs::create_dir_all(&enabled)?;
    fs::copy(unpacked.top.join(archive::UNIT), units.join("nfs3d.service"))?;
    fs::copy(unpacked.top.join("bin/nfs3d"), root.join("usr/local/bin/nfs3d"))?;
    let link = enabled.join("nfs3d.service");
    if fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink("../nfs3d.service", link)?;
    }
    let exported = super::fresh(&root.join("srv/data"))?;
    fs::set_permissions(exported, fs::Permissions::from_mode(0o1777))?;
    fs::set_permissions(super::fresh(&root.join("opt/system"))?, fs::Permissions::from_mode(0o1777))?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let config = format!(
        r#"listen = "127.0.0.1:{port}"
handle-key = "/var/lib/nfs3d/handle-key"

[[export]]
path = "/data"
dir = "/srv/data"
read-only = false

[[export]]
path = "/system"
dir = "/opt/system"
"#
    );
    fs::write(root.join(CONFIG), config)?;
    Ok(port)
}

fn children(process: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn first_child(process: u32) -> Option<u32> {
    children(process).first().copied()
}

/// Checks the capabilities and restrictions of `nfs3d`. `system` is the PID of the container's systemd.
fn check_confinement(system: u32) -> Result<()> {
    let name = |process: &u32| fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let services = children(system);
    let server = services.iter().find(|process| name(process).trim_end() == "nfs3d");
    let server = server.context("systemd has no child process nfs3d")?;
    let status = fs::read_to_string(format!("/proc/{server}/status"))?;
    let allowed: u64 = CAPABILITIES.iter().map(|bit| 1 << bit).sum();
    for (name, expected) in [
        ("CapEff", format!("{allowed:016x}")),
        ("CapBnd", format!("{allowed:016x}")),
        ("NoNewPrivs", "1".to_owned()),
    ] {
        let found = field(&status, name)?;
        ensure!(found == expected, "{name} of nfs3d is {found}, expected {expected}");
    }
    // systemd-nspawn filters the system calls of every process in the container. The unit adds filters for
    // `nfs3d`.
    let filters = |status: &str| Ok::<u32, anyhow::Error>(field(status, "Seccomp_filters")?.parse()?);
    let of_system = fs::read_to_string(format!("/proc/{system}/status"))?;
    ensure!(filters(&status)? > filters(&of_system)?, "the unit does not filter system calls");
    Ok(())
}

fn field<'s>(status: &'s str, name: &str) -> Result<&'s str> {
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| *field == name);
    Ok(found.with_context(|| format!("no field {name}"))?.1.trim())
}

/// `nfs3`, run as the unprivileged caller.
struct Client {
    program: PathBuf,
    /// The file to store.
    data: PathBuf,
    url: String,
}

impl Client {
    fn put(&self, to: &str) -> Result<String> {
        let mut put = Command::new("setpriv");
        put.args([format!("--reuid={CALLER}"), format!("--regid={CALLER}")]).arg("--clear-groups");
        put.arg(&self.program).args(["put", "--verify"]).arg(&self.data).arg(format!("{}/{to}", self.url));
        run::output(&mut put)
    }

    /// Checks that storing the file fails because the file system or the export is read-only.
    fn is_refused(&self, to: &str) -> Result<()> {
        match self.put(to) {
            Ok(_) => bail!("{to} was written"),
            Err(error) => {
                let error = format!("{error:#}");
                ensure!(error.contains("read-only file system"), "{to}: wrong error: {error}");
                Ok(())
            }
        }
    }
}
