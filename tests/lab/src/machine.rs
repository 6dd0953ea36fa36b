//! A guest under QEMU. KVM is not required. Only ports on 127.0.0.1 are forwarded to the guest.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::agent::{self, Ran};
use crate::tools::{at, command, last_lines};

/// The timeout for each boot attempt. Without KVM, booting can take minutes on a busy machine.
const BOOT_TIMEOUT: Duration = Duration::from_secs(900);
/// The maximum number of boot attempts if the kernel panics during boot.
const MAX_BOOTS: u32 = 3;
/// The guest's memory, in MiB.
const MEMORY: u32 = 1536;

/// The guest's port for the agent.
pub(super) const AGENT: u16 = 7000;
/// The guest's port for knfsd over RDMA.
pub(super) const NFS_RDMA: u16 = 20049;
/// The guest's port for knfsd over TCP.
pub(super) const NFS_TCP: u16 = 2049;
/// The guest's port for MOUNT over TCP.
pub(super) const MOUNT: u16 = 20048;

/// The ports on 127.0.0.1 that are forwarded to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The agent, which runs commands.
    pub agent: u16,
    /// NFS over RDMA (iWARP over TCP).
    pub nfs_rdma: u16,
    /// NFS over TCP.
    pub nfs_tcp: u16,
    /// MOUNT over TCP.
    pub mount: u16,
}

impl Ports {
    fn free() -> Result<Self, String> {
        let any =
            || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("127.0.0.1: {error}"));
        // All sockets stay open until all ports are known, so that no port is returned twice.
        let held = [any()?, any()?, any()?, any()?];
        let mut ports = [0; 4];
        for (port, listener) in ports.iter_mut().zip(&held) {
            *port = listener.local_addr().map_err(|error| error.to_string())?.port();
        }
        let [agent, nfs_rdma, nfs_tcp, mount] = ports;
        Ok(Ports { agent, nfs_rdma, nfs_tcp, mount })
    }
}

/// A running guest.
#[derive(Debug)]
pub struct Machine {
    /// The forwarded ports.
    pub ports: Ports,
    pub(super) console: PathBuf,
    pub(super) process: u32,
    /// The directory that the guest mounts read-only as /host.
    share: PathBuf,
    /// The child process (QEMU, or the shell around QEMU), or `None` if the guest outlives this value.
    child: Option<Child>,
}

pub(super) struct Parts {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
}

impl Machine {
    /// Boots a guest and waits until it can run commands.
    ///
    /// A `detached` guest runs until it is terminated. Other guests end when the returned value is dropped,
    /// or when this process exits or is killed.
    ///
    /// A kernel under emulation sometimes panics during boot, because QEMU can miss that the kernel patches
    /// its own code. No command has run in the guest at that point, so the boot is repeated.
    pub(super) fn boot(parts: &Parts, folder: &Path, detached: bool) -> Result<Self, String> {
        let mut boots = 1;
        loop {
            match Self::boot_once(parts, folder, detached) {
                Err(error) if boots < MAX_BOOTS && error.contains("Kernel panic") => {
                    boots += 1;
                    eprintln!("lab: the kernel panicked during boot; attempt {boots} of {MAX_BOOTS}");
                }
                result => return result,
            }
        }
    }

    fn boot_once(parts: &Parts, folder: &Path, detached: bool) -> Result<Self, String> {
        let share = folder.join("share");
        fs::create_dir_all(&share).map_err(at(&share))?;
        let ports = Ports::free()?;
        let console = folder.join("console");
        let log = folder.join("qemu.log");
        let errors = File::create(&log).map_err(at(&log))?;
        let qemu = qemu(parts, ports, &console, &share);
        let mut command = if detached { qemu } else { attached(&qemu) };
        command.stdout(Stdio::null()).stderr(errors).process_group(0);
        let child = command.spawn().map_err(|error| format!("QEMU: {error}"))?;
        let mut machine = Machine { ports, console, process: child.id(), share, child: Some(child) };
        machine.wait(&log)?;
        if detached {
            machine.child = None;
        }
        Ok(machine)
    }

    pub(super) fn known(ports: Ports, process: u32, folder: &Path) -> Self {
        Machine { ports, console: folder.join("console"), process, share: folder.join("share"), child: None }
    }

    /// Shares a file with the guest and returns its path in the guest. Does not replace an existing file with
    /// the same name.
    ///
    /// # Errors
    /// Fails if the file cannot be copied.
    pub fn bring(&self, file: &Path) -> Result<String, String> {
        let name = file.file_name().ok_or_else(|| format!("{}: not a file name", file.display()))?;
        let target = self.share.join(name);
        if !target.exists() && fs::hard_link(file, &target).is_err() {
            fs::copy(file, &target).map_err(at(&target))?;
        }
        Ok(format!("/host/{}", name.to_string_lossy()))
    }

    /// Returns the directory that the guest mounts as /host.
    #[must_use]
    pub fn share(&self) -> &Path {
        &self.share
    }

    fn wait(&mut self, log: &Path) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < BOOT_TIMEOUT {
            sleep(Duration::from_millis(250));
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                let errors = fs::read_to_string(log).unwrap_or_default();
                let (errors, console) = (last_lines(&errors, 20), self.last_lines());
                return Err(format!("QEMU exited ({status}):\n{errors}\n{console}"));
            }
            let console = fs::read(&self.console).unwrap_or_default();
            if String::from_utf8_lossy(&console).contains("lab: Linux")
                && self.run("true", Duration::from_secs(20)).is_ok_and(|ran| ran.status == 0)
            {
                return Ok(());
            }
        }
        let console = fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let seconds = BOOT_TIMEOUT.as_secs();
        Err(format!("the guest did not boot within {seconds} s:\n{}", last_lines(&console, 20)))
    }

    /// Runs a bash script in the guest.
    ///
    /// # Errors
    /// Fails if the guest does not respond, or if the output exceeds 64 MiB. A script that fails or times out
    /// is not an error.
    pub fn run(&self, script: &str, limit: Duration) -> Result<Ran, String> {
        agent::run(self.ports.agent, script, limit).map_err(|error| format!("the guest: {error}"))
    }

    /// Returns the last 60 lines of the guest's console.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let console = fs::read(&self.console).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&console), 60)
    }

    /// Returns true if the guest's console contains this text.
    #[must_use]
    pub fn console_contains(&self, word: &str) -> bool {
        let console = fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&console).contains(word)
    }

    /// Terminates the guest and waits until it has exited. Has no effect on a detached guest that has booted.
    pub fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            match child.stdin.take() {
                // The shell around QEMU terminates QEMU when the shell's input is closed.
                Some(input) => drop(input),
                // A detached guest that failed to boot runs without the shell.
                None => drop(child.kill()),
            }
            let _ = child.wait();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

fn qemu(parts: &Parts, ports: Ports, console: &Path, share: &Path) -> Command {
    let forward = |(host, guest): (u16, u16)| format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}");
    let Ports { agent, nfs_rdma, nfs_tcp, mount } = ports;
    let ports = [(agent, AGENT), (nfs_rdma, NFS_RDMA), (nfs_tcp, NFS_TCP), (mount, MOUNT)];
    let forwards = ports.map(forward).concat();
    let mut qemu = command("qemu-system-x86_64");
    // KVM may be present but unusable, and QEMU detects this too late to fall back to emulation. Therefore,
    // KVM is used only if `RPCRDMA_LAB_ACCEL` requests it.
    let accelerator = env::var("RPCRDMA_LAB_ACCEL").unwrap_or_else(|_| "tcg,thread=multi".to_owned());
    // In QEMU 7.2, CMPXCHG16B sets wrong flags if an interrupt follows, and the kernel panics. All guests run
    // without this instruction.
    qemu.args(["-accel", &accelerator, "-cpu", "max,-cx16", "-machine", "q35", "-smp", "2"]);
    qemu.args([
        "-m",
        &MEMORY.to_string(),
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
    ]);
    qemu.arg("-kernel").arg(&parts.kernel).arg("-initrd").arg(&parts.initrd);
    // On a busy machine, the emulated timer can be late. The kernel's timer check would then panic, so the
    // check is disabled.
    let timer = "no_timer_check";
    let rest = "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=1";
    qemu.args(["-append", &format!("{rest} {timer}")]);
    qemu.arg("-serial").arg(format!("file:{}", console.display()));
    qemu.args(["-netdev", &format!("user,id=net,ipv6=off{forwards}")]);
    qemu.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
    let shared = share.display().to_string().replace(',', ",,");
    qemu.args(["-fsdev", &format!("local,id=host,path={shared},security_model=none,readonly=on")]);
    qemu.args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]);
    qemu.args([
        "-object",
        "rng-random,id=random,filename=/dev/urandom",
        "-device",
        "virtio-rng-pci,rng=random",
    ]);
    qemu
}

/// Wraps the command in a shell that terminates QEMU when the shell's input is closed. The input is a pipe
/// from this process, so QEMU ends even if this process is killed.
fn attached(qemu: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    // The shell exits when QEMU exits. Background jobs have no input, so the shell duplicates its input to
    // descriptor 3.
    let script = "exec 3<&0; \"$@\" 3<&- & qemu=$!; { cat <&3 >/dev/null; kill $qemu 2>/dev/null; } & exec 3<&-; wait $qemu";
    shell.args(["-c", script, "lab"]);
    shell.arg(qemu.get_program()).args(qemu.get_args()).stdin(Stdio::piped());
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_exits_with_qemu_and_terminates_it() {
        let mut finished = attached(Command::new("true").arg("-")).spawn().expect("sh");
        // The shell exits although its input is still open.
        assert!(exits(&mut finished));
        let mut running = attached(Command::new("sleep").arg("1000")).spawn().expect("sh");
        drop(running.stdin.take());
        assert!(exits(&mut running));
    }

    fn exits(child: &mut Child) -> bool {
        (0..600).any(|_| {
            sleep(Duration::from_millis(100));
            matches!(child.try_wait(), Ok(Some(_)))
        })
    }

    #[test]
    fn a_detached_guest_that_fails_to_boot_is_terminated() {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let process = child.id();
        let ports = Ports { agent: 1, nfs_rdma: 2, nfs_tcp: 3, mount: 4 };
        let (console, share) = (PathBuf::new(), PathBuf::new());
        drop(Machine { ports, console, process, share, child: Some(child) });
        assert!(!Path::new(&format!("/proc/{process}")).exists());
    }
}
