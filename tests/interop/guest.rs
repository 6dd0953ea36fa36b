//! The guest, which all tests of a run share. A mutex gives one test at a time access to the guest.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rpcrdma_lab::{Lab, Machine, Ports, Ran, Series};

use crate::place::inside;

/// The time limit for a script of [`Guest::run`]. Without KVM, the guest is slow.
const LIMIT: Duration = Duration::from_secs(400);

/// The guest, or this machine if the test program itself runs in the guest.
pub(crate) struct Guest {
    machine: Option<Machine>,
    /// The loaded siw module, or `None` before the first load and after siw has been replaced.
    siw: Option<Siw>,
    knfsd: bool,
    suites: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Siw {
    /// Unmodified siw, which can leave the first message on an accepted connection unread.
    Stock,
    /// `Stock` with the lab's fixes.
    Fixed,
    /// Like `Fixed`, but requests peer-to-peer connections (RFC 6581 section 9).
    Peers,
}

pub(crate) fn size<T>(short: T, long: T) -> T {
    if std::env::var("RPCRDMA_LAB").is_ok_and(|value| value == "long") { long } else { short }
}

pub(crate) fn lab_enabled() -> bool {
    let value = std::env::var("RPCRDMA_LAB").unwrap_or_default();
    value == "1" || value == "long"
}

/// Locks the guest for this test. On the host, boots a guest if needed and loads the given siw module.
/// Returns `None` if the lab is not enabled.
pub(crate) fn guest(siw: Siw) -> Option<MutexGuard<'static, Guest>> {
    static GUEST: OnceLock<Mutex<Guest>> = OnceLock::new();
    if !lab_enabled() {
        not_run::not_run("RPCRDMA_LAB is not set");
        return None;
    }
    let guest = GUEST.get_or_init(|| Mutex::new(Guest::boot()));
    let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
    if guest.is_broken() {
        // libtest captures `eprintln` output and shows it only if this test fails.
        let _ = writeln!(
            std::io::stderr(),
            "the guest's kernel reported a bug; booting another guest:\n{}",
            guest.last_lines()
        );
        // Stop the old guest before booting another, because both use the same directory.
        guest.machine = None;
        *guest = Guest::boot();
    }
    // If this program runs in the guest, the host has already set up a device.
    if guest.siw != Some(siw) && guest.machine.is_some() {
        guest.run(&format!("/lab/siw {siw:?}").to_lowercase());
        guest.siw = Some(siw);
    }
    Some(guest)
}

pub(crate) fn suites_disabled() -> bool {
    let disabled = std::env::var("RPCRDMA_LAB_SUITES").is_ok_and(|value| value == "no");
    if disabled {
        not_run::not_run("RPCRDMA_LAB_SUITES=no");
    }
    disabled
}

/// Like [`guest`], with third-party test suites below /host/suites. Also returns `None` if the suites are
/// disabled.
pub(crate) fn guest_with_suites(siw: Siw) -> Option<MutexGuard<'static, Guest>> {
    if suites_disabled() {
        return None;
    }
    let mut guest = guest(siw)?;
    guest.bring_suites();
    Some(guest)
}

/// Like [`guest`], with the kernel's NFS server running.
pub(crate) fn server(siw: Siw) -> Option<MutexGuard<'static, Guest>> {
    let mut guest = guest(siw)?;
    guest.serve();
    Some(guest)
}

impl Guest {
    fn boot() -> Self {
        let boot = || Lab::detect().unwrap().boot(Series::wanted().unwrap()).unwrap();
        let machine = if inside().is_some() { None } else { Some(boot()) };
        Guest { machine, siw: None, knfsd: false, suites: false }
    }

    /// Returns true if the kernel reported a bug. Kernel threads may then be dead, and later operations may
    /// hang.
    fn is_broken(&self) -> bool {
        ["BUG: ", "Oops: ", "Kernel panic"].iter().any(|word| {
            let machine = self.machine.as_ref();
            machine.is_some_and(|machine| machine.console_contains(word))
        })
    }

    /// Gives the kernel's server a second to release the resources of its last replies.
    ///
    /// Call this before closing a connection that was used for READ. Linux 6.12 releases the resources of
    /// RDMA Writes on another thread (`svc_rdma_write_info_free_async`). If the connection closes first, that
    /// thread crashes and the server stops (observed with 6.12.117 on a busy machine).
    pub(crate) fn settle(&self) {
        self.run("sleep 1");
    }

    /// Runs a bash script, which must succeed, and returns its output.
    pub(crate) fn run(&self, script: &str) -> String {
        let ran = self.execute(script, LIMIT);
        assert_eq!(ran.status, 0, "{script}\n{}\n{}", ran.printed, self.last_lines());
        ran.printed
    }

    pub(crate) fn try_run(&self, script: &str, limit: Duration) -> (i32, String) {
        let ran = self.execute(script, limit);
        (ran.status, ran.printed)
    }

    fn execute(&self, script: &str, limit: Duration) -> Ran {
        match &self.machine {
            Some(machine) => machine.run(script, limit),
            None => run_here(script, limit),
        }
        .unwrap_or_else(|error| panic!("{error}\n{}", self.last_lines()))
    }

    fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap_or_else(|| panic!("this program already runs in the guest"))
    }

    pub(crate) fn serve(&mut self) {
        if !self.knfsd {
            self.run("/lab/knfsd");
            self.knfsd = true;
        }
    }

    pub(crate) fn stop_serving(&mut self) {
        self.run(
            "! [ -e /proc/fs/nfsd/threads ] || rpc.nfsd 0; ! pidof rpc.mountd || kill $(pidof rpc.mountd)
             for second in $(seq 20); do pidof rpc.mountd || exit 0; sleep 1; done; exit 1",
        );
        self.knfsd = false;
    }

    pub(crate) fn bring(&self, program: &str) -> String {
        self.machine().bring(Path::new(program)).unwrap()
    }

    pub(crate) fn bring_memcheck(&self) {
        Lab::detect().unwrap().bring_memcheck(self.machine()).unwrap();
    }

    pub(crate) fn bring_suites(&mut self) {
        if let (Some(machine), false) = (&self.machine, self.suites) {
            Lab::detect().unwrap().bring_suites(machine).unwrap();
            self.suites = true;
        }
    }

    /// Records that siw has been replaced. The next test that needs siw loads it again.
    pub(crate) fn forget_device(&mut self) {
        self.siw = None;
    }

    fn last_lines(&self) -> String {
        self.machine.as_ref().map(Machine::last_lines).unwrap_or_default()
    }

    /// Returns the ports of the guest's servers at [`address`](crate::place::address).
    pub(crate) fn ports(&self) -> Ports {
        let own = Ports { agent: 0, nfs_rdma: 20_049, nfs_tcp: 2049, mount: 20_048 };
        self.machine.as_ref().map_or(own, |machine| machine.ports)
    }
}

/// Runs a script locally, for a test program that itself runs in the guest.
fn run_here(script: &str, limit: Duration) -> Result<Ran, String> {
    let mut bash = Command::new("timeout");
    bash.arg(limit.as_secs().to_string()).args(["bash", "-c", &format!("exec 2>&1\n{script}")]);
    let output = bash.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let status = output.status.code().ok_or("the script was killed by a signal")?;
    Ok(Ran { status, printed: String::from_utf8_lossy(&output.stdout).into_owned() })
}

/// A random number generator that prints its seed. libtest shows the seed if the test fails.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        let seed = RandomState::new().build_hasher().finish() | 1;
        eprintln!("seed {seed:#x}");
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a length from 1 to `max`. Short lengths are more likely than long lengths.
    pub(crate) fn length(&mut self, max: usize) -> usize {
        let bits = self.next() % u64::from(usize::BITS - max.leading_zeros());
        let length = 1 + self.next() % (2 << bits);
        usize::try_from(length).unwrap().min(max)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[test]
fn a_guest_with_a_broken_kernel_is_replaced() {
    let Some(broken) = guest(Siw::Fixed) else { return };
    broken.run("touch /run/broken; echo '<2>BUG: simulated by a test' >/dev/kmsg");
    drop(broken);
    guest(Siw::Fixed).unwrap().run("[ ! -e /run/broken ]");
}

#[test]
fn a_command_returns_while_its_background_processes_run() {
    let Some(guest) = guest(Siw::Fixed) else { return };
    assert_eq!(guest.run("sleep 5000 & echo $! >/run/left; printf 'lab: exit 5\\n'"), "lab: exit 5\n");
    guest.run("kill $(cat /run/left)");
    // A command that exceeds its time limit is killed together with its background processes.
    let script = "echo started; sleep 5000 & echo $! >/run/left; wait";
    assert_eq!(guest.try_run(script, Duration::from_secs(2)), (124, "started\n".to_owned()));
    guest.run("for i in $(seq 100); do kill -0 $(cat /run/left) || exit 0; sleep 0.1; done; exit 1");
}
