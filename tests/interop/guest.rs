//! One guest for all tests of this run; they take turns.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rpcrdma_lab::{Lab, Machine, Ports, Ran, Series};

use crate::place::inside;

/// What one command in the guest may take: the machine may be slow, and its emulation is.
const LIMIT: Duration = Duration::from_secs(400);

/// The guest.
pub(crate) struct Guest {
    /// `None` where it is what this program runs in.
    machine: Option<Machine>,
    /// The siw that is loaded.
    siw: Option<Siw>,
    knfsd: bool,
    suites: bool,
}

/// Which siw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Siw {
    /// As it is in Linux: it can leave the first message of a connection that it accepts unread.
    Stock,
    /// Without that.
    Mended,
    /// The same, and it asks for connections between peers (RFC 6581 section 9).
    Peers,
}

/// The first of two sizes of a test, or the second where there is time (`RPCRDMA_LAB=long`).
pub(crate) fn size<T>(short: T, long: T) -> T {
    if std::env::var("RPCRDMA_LAB").is_ok_and(|asked| asked == "long") { long } else { short }
}

/// Whether the lab is asked for.
pub(crate) fn asked() -> bool {
    let asked = std::env::var("RPCRDMA_LAB").unwrap_or_default();
    asked == "1" || asked == "long"
}

/// The guest with this siw, for the one test that holds it; `None` where the lab is not asked for.
pub(crate) fn guest(siw: Siw) -> Option<MutexGuard<'static, Guest>> {
    static GUEST: OnceLock<Mutex<Guest>> = OnceLock::new();
    if !asked() {
        not_run::not_run("RPCRDMA_LAB is not set");
        return None;
    }
    let guest = GUEST.get_or_init(|| Mutex::new(Guest::boot()));
    let mut guest = guest.lock().unwrap_or_else(PoisonError::into_inner);
    if guest.is_broken() {
        // Not by `eprintln`, which shows it only if this test fails too.
        let _ = writeln!(
            std::io::stderr(),
            "the guest's kernel is broken, here is another:\n{}",
            guest.last_words()
        );
        // One at a time: both have the same directory.
        guest.machine = None;
        *guest = Guest::boot();
    }
    // Inside, whoever had this program run has chosen.
    if guest.siw != Some(siw) && guest.machine.is_some() {
        guest.run(&format!("/lab/siw {siw:?}").to_lowercase());
        guest.siw = Some(siw);
    }
    Some(guest)
}

/// Whether no test suite of others is wanted. Says so.
pub(crate) fn suites_are_left_out() -> bool {
    let left_out = std::env::var("RPCRDMA_LAB_SUITES").is_ok_and(|value| value == "no");
    if left_out {
        not_run::not_run("RPCRDMA_LAB_SUITES=no");
    }
    left_out
}

/// The guest with this siw and the test suites of others, below /host/suites.
pub(crate) fn guest_with_suites(siw: Siw) -> Option<MutexGuard<'static, Guest>> {
    if suites_are_left_out() {
        return None;
    }
    let mut guest = guest(siw)?;
    guest.bring_suites();
    Some(guest)
}

/// The guest with this siw and the kernel's NFS server.
pub(crate) fn server(siw: Siw) -> Option<MutexGuard<'static, Guest>> {
    let mut guest = guest(siw)?;
    guest.serve();
    Some(guest)
}

impl Guest {
    fn boot() -> Self {
        let boot = || Lab::at_hand().unwrap().boot(Series::wanted().unwrap()).unwrap();
        let machine = if inside().is_some() { None } else { Some(boot()) };
        Guest { machine, siw: None, knfsd: false, suites: false }
    }

    /// Whether its kernel has found a mistake of its own. Threads are missing then, and what they were to do never ends.
    fn is_broken(&self) -> bool {
        ["BUG: ", "Oops: ", "Kernel panic"].iter().any(|word| {
            let machine = self.machine.as_ref();
            machine.is_some_and(|machine| machine.has_said(word))
        })
    }

    /// Lets the kernel's server come to the end of what it does after a reply, before a connection is closed. Where READ was called,
    /// Linux 6.12 gives back what its RDMA Writes had by another thread, which finds no connection if it is late
    /// (`svc_rdma_write_info_free_async`: seen in 6.12.117 on a busy machine), and with it goes all that it serves.
    pub(crate) fn settle(&self) {
        self.run("sleep 1");
    }

    /// Runs a bash script that must succeed, and returns what it printed.
    pub(crate) fn run(&self, script: &str) -> String {
        let ran = self.ran(script, LIMIT);
        assert_eq!(ran.status, 0, "{script}\n{}\n{}", ran.printed, self.last_words());
        ran.printed
    }

    /// Runs a bash script that may take long and may fail. Returns its exit status and what it printed.
    pub(crate) fn try_run(&self, script: &str, limit: Duration) -> (i32, String) {
        let ran = self.ran(script, limit);
        (ran.status, ran.printed)
    }

    fn ran(&self, script: &str, limit: Duration) -> Ran {
        match &self.machine {
            Some(machine) => machine.run(script, limit),
            None => run_here(script, limit),
        }
        .unwrap_or_else(|error| panic!("{error}\n{}", self.last_words()))
    }

    fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap_or_else(|| panic!("this is the guest"))
    }

    /// Has the kernel serve /export.
    pub(crate) fn serve(&mut self) {
        if !self.knfsd {
            self.run("/lab/knfsd");
            self.knfsd = true;
        }
    }

    /// Has the kernel serve nothing, and its ports for others.
    pub(crate) fn serve_no_more(&mut self) {
        self.run(
            "! [ -e /proc/fs/nfsd/threads ] || rpc.nfsd 0; ! pidof rpc.mountd || kill $(pidof rpc.mountd)
             for second in $(seq 20); do pidof rpc.mountd || exit 0; sleep 1; done; exit 1",
        );
        self.knfsd = false;
    }

    /// Brings a program of this machine in. Returns its path there.
    pub(crate) fn bring(&self, program: &str) -> String {
        self.machine().bring(Path::new(program)).unwrap()
    }

    /// Has it see valgrind's tree, below /host/memcheck.
    pub(crate) fn bring_memcheck(&self) {
        Lab::at_hand().unwrap().bring_memcheck(self.machine()).unwrap();
    }

    /// Has it see the test suites of others.
    pub(crate) fn bring_suites(&mut self) {
        if let (Some(machine), false) = (&self.machine, self.suites) {
            Lab::at_hand().unwrap().bring_suites(machine).unwrap();
            self.suites = true;
        }
    }

    /// Another device is there now: the next test that wants siw gets it anew.
    pub(crate) fn forget_device(&mut self) {
        self.siw = None;
    }

    /// What the kernel in the guest said last.
    fn last_words(&self) -> String {
        self.machine.as_ref().map(Machine::last_words).unwrap_or_default()
    }

    /// Where its ports are, at this place's address.
    pub(crate) fn ports(&self) -> Ports {
        let own = Ports { agent: 0, nfs_rdma: 20_049, mount: 20_048 };
        self.machine.as_ref().map_or(own, |machine| machine.ports)
    }
}

/// What the guest's agent does, for a program that runs there itself.
fn run_here(script: &str, limit: Duration) -> Result<Ran, String> {
    let mut bash = Command::new("timeout");
    bash.arg(limit.as_secs().to_string()).args(["bash", "-c", &format!("exec 2>&1\n{script}")]);
    let output = bash.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let status = output.status.code().ok_or("the script was ended by a signal")?;
    Ok(Ran { status, printed: String::from_utf8_lossy(&output.stdout).into_owned() })
}

/// Numbers that differ from run to run; the seed is told, for a run that failed.
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

    /// A length up to `max`, of which small ones are as likely as large ones.
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
fn a_guest_whose_kernel_broke_is_not_used_again() {
    let Some(broken) = guest(Siw::Mended) else { return };
    broken.run("touch /run/broken; echo '<2>BUG: only said so, by a test' >/dev/kmsg");
    drop(broken);
    guest(Siw::Mended).unwrap().run("[ ! -e /run/broken ]");
}

/// A command's answer is there when it has ended, and not with the end of what it leaves to run.
#[test]
fn a_command_is_answered_whatever_it_leaves_to_run() {
    let Some(guest) = guest(Siw::Mended) else { return };
    assert_eq!(guest.run("sleep 5000 & echo $! >/run/left; printf 'lab: exit 5\\n'"), "lab: exit 5\n");
    guest.run("kill $(cat /run/left)");
    // One that takes too long is ended with what it has started.
    let script = "echo begun; sleep 5000 & echo $! >/run/left; wait";
    assert_eq!(guest.try_run(script, Duration::from_secs(2)), (124, "begun\n".to_owned()));
    guest.run("for i in $(seq 100); do kill -0 $(cat /run/left) || exit 0; sleep 0.1; done; exit 1");
}
