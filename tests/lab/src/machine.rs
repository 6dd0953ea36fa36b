//! One guest under QEMU, which needs no KVM. Its ports are reached at 127.0.0.1 only.

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

/// How long a guest may take to boot. It is a matter of seconds; without KVM, on two processors that 17 others want, it has
/// taken 140 of them.
const BOOT: Duration = Duration::from_secs(900);
/// How many guests are booted before a panic of the kernel at boot is an error.
const BOOTS: u32 = 3;
/// The guest's memory, in MiB.
const MEMORY: u32 = 1536;

/// Ports of the guest that matter.
pub(super) const AGENT: u16 = 7000;
/// Where knfsd is over RDMA.
pub(super) const NFS_RDMA: u16 = 20049;
/// Where knfsd's MOUNT is over TCP.
pub(super) const MOUNT: u16 = 20048;

/// Ports of this machine, on 127.0.0.1, that lead into the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Runs commands.
    pub agent: u16,
    /// NFS over RDMA, which is iWARP over TCP.
    pub nfs_rdma: u16,
    /// MOUNT over TCP.
    pub mount: u16,
}

impl Ports {
    /// Ports that nobody uses now, and that no server of this machine expects to be its own.
    fn free() -> Result<Self, String> {
        let any =
            || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("127.0.0.1: {error}"));
        // All are held until all are known, or one could be given out twice.
        let held = [any()?, any()?, any()?];
        let mut ports = [0; 3];
        for (port, listener) in ports.iter_mut().zip(&held) {
            *port = listener.local_addr().map_err(|error| error.to_string())?.port();
        }
        let [agent, nfs_rdma, mount] = ports;
        Ok(Ports { agent, nfs_rdma, mount })
    }
}

/// A guest that runs.
#[derive(Debug)]
pub struct Machine {
    /// Where its ports are.
    pub ports: Ports,
    /// What it says while it boots.
    pub(super) console: PathBuf,
    /// Number of the process, and the process itself where it ends with us.
    pub(super) process: u32,
    /// A directory of this machine that the guest sees as /host, where it can change nothing.
    share: PathBuf,
    kept: Option<Child>,
}

/// What a guest is made of.
pub(super) struct Parts {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
}

impl Machine {
    /// Boots a guest, and waits until it runs commands. If it `stays`, nothing but its end stops it; otherwise it
    /// ends with this value, or with this process, however that ends.
    ///
    /// A kernel under emulation sometimes panics while it boots: QEMU can miss that the kernel patches its own code. Nothing has
    /// run in such a guest, so another one is booted.
    pub(super) fn boot(parts: &Parts, folder: &Path, stays: bool) -> Result<Self, String> {
        let mut boots = 1;
        loop {
            match Self::boot_once(parts, folder, stays) {
                Err(why) if boots < BOOTS && why.contains("Kernel panic") => {
                    boots += 1;
                    eprintln!("lab: the kernel panicked while it booted; boot {boots} of at most {BOOTS}");
                }
                outcome => return outcome,
            }
        }
    }

    fn boot_once(parts: &Parts, folder: &Path, stays: bool) -> Result<Self, String> {
        let share = folder.join("share");
        fs::create_dir_all(&share).map_err(at(&share))?;
        let ports = Ports::free()?;
        let console = folder.join("console");
        let log = folder.join("qemu.log");
        let errors = File::create(&log).map_err(at(&log))?;
        let qemu = qemu(parts, ports, &console, &share);
        let mut start = if stays { qemu } else { held(&qemu) };
        start.stdout(Stdio::null()).stderr(errors).process_group(0);
        let child = start.spawn().map_err(|error| format!("QEMU: {error}"))?;
        let mut machine = Machine { ports, console, process: child.id(), share, kept: Some(child) };
        machine.wait(&log)?;
        if stays {
            machine.kept = None;
        }
        Ok(machine)
    }

    /// A guest that another process has booted.
    pub(super) fn known(ports: Ports, process: u32, folder: &Path) -> Self {
        Machine { ports, console: folder.join("console"), process, share: folder.join("share"), kept: None }
    }

    /// Puts a file of this machine where the guest sees it, and returns its path there. What is there under that
    /// name stays as it is.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn bring(&self, file: &Path) -> Result<String, String> {
        let name = file.file_name().ok_or_else(|| format!("{}: no file", file.display()))?;
        let there = self.share.join(name);
        if !there.exists() && fs::hard_link(file, &there).is_err() {
            fs::copy(file, &there).map_err(at(&there))?;
        }
        Ok(format!("/host/{}", name.to_string_lossy()))
    }

    /// The directory that the guest sees as /host.
    #[must_use]
    pub fn share(&self) -> &Path {
        &self.share
    }

    fn wait(&mut self, log: &Path) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < BOOT {
            sleep(Duration::from_millis(250));
            if let Some(Ok(Some(status))) = self.kept.as_mut().map(Child::try_wait) {
                let said = fs::read_to_string(log).unwrap_or_default();
                let (said, words) = (last_lines(&said, 20), self.last_words());
                return Err(format!("QEMU ended ({status}):\n{said}\n{words}"));
            }
            let console = fs::read(&self.console).unwrap_or_default();
            if String::from_utf8_lossy(&console).contains("lab: Linux")
                && self.run("true", Duration::from_secs(20)).is_ok_and(|ran| ran.status == 0)
            {
                return Ok(());
            }
        }
        let said = fs::read(&self.console).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        Err(format!("the guest did not boot in {} s:\n{}", BOOT.as_secs(), last_lines(&said, 20)))
    }

    /// Runs a bash script in the guest.
    ///
    /// # Errors
    /// If the guest does not answer; not if the script fails.
    pub fn run(&self, script: &str, limit: Duration) -> Result<Ran, String> {
        agent::run(self.ports.agent, script, limit).map_err(|error| format!("the guest: {error}"))
    }

    /// The last lines that the guest's kernel has printed.
    #[must_use]
    pub fn last_words(&self) -> String {
        let said = fs::read(&self.console).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&said), 60)
    }

    /// Whether the guest's kernel has printed this.
    #[must_use]
    pub fn has_said(&self, word: &str) -> bool {
        let said = fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&said).contains(word)
    }

    /// Ends a guest that would end with this value: now. Nothing runs in it any more.
    pub fn end(&mut self) {
        if let Some(mut child) = self.kept.take() {
            match child.stdin.take() {
                // The process that holds the guest ends it when its input does.
                Some(input) => drop(input),
                // One that was to stay, and that did not come up.
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

/// QEMU for a guest.
fn qemu(parts: &Parts, ports: Ports, console: &Path, share: &Path) -> Command {
    let forward = |(here, there): (u16, u16)| format!(",hostfwd=tcp:127.0.0.1:{here}-:{there}");
    let forwards =
        [(ports.agent, AGENT), (ports.nfs_rdma, NFS_RDMA), (ports.mount, MOUNT)].map(forward).concat();
    let mut qemu = command("qemu-system-x86_64");
    // KVM that is there does not always work, and QEMU notices too late: it is used where it is asked for only.
    let accelerator = env::var("RPCRDMA_LAB_ACCEL").unwrap_or_else(|_| "tcg,thread=multi".to_owned());
    qemu.args(["-accel", &accelerator, "-cpu", "max", "-machine", "q35", "-smp", "2"]);
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
    // On a busy machine the emulated timer can be late, and the kernel would panic where it checks that.
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

/// The same, as a process that ends with its input, which we hold. So nothing is left when we are killed.
fn held(qemu: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    // The shell ends when QEMU does, and QEMU when the shell's input does. A job in the background has no input of its own.
    let script = "exec 3<&0; \"$@\" 3<&- & qemu=$!; { cat <&3 >/dev/null; kill $qemu 2>/dev/null; } & exec 3<&-; wait $qemu";
    shell.args(["-c", script, "lab"]);
    shell.arg(qemu.get_program()).args(qemu.get_args()).stdin(Stdio::piped());
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_that_holds_a_guest_ends_with_it_and_ends_it() {
        let mut ended = held(Command::new("true").arg("-")).spawn().expect("sh");
        // Its input is still open.
        assert!(ends(&mut ended));
        let mut running = held(Command::new("sleep").arg("1000")).spawn().expect("sh");
        drop(running.stdin.take());
        assert!(ends(&mut running));
    }

    /// Whether a process ends within 60 seconds.
    fn ends(child: &mut Child) -> bool {
        (0..600).any(|_| {
            sleep(Duration::from_millis(100));
            matches!(child.try_wait(), Ok(Some(_)))
        })
    }

    #[test]
    fn a_guest_that_was_to_stay_and_did_not_come_up_is_ended() {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let process = child.id();
        let ports = Ports { agent: 1, nfs_rdma: 2, mount: 3 };
        let (console, share) = (PathBuf::new(), PathBuf::new());
        drop(Machine { ports, console, process, share, kept: Some(child) });
        assert!(!Path::new(&format!("/proc/{process}")).exists());
    }
}
