//! `cargo xtask lab`: Linux's own NFS/RDMA client and server, in a guest that needs no RDMA hardware and no rights.
//!
//! The guest is a kernel of Debian's under QEMU, with software iWARP built out of that kernel's source, and some of
//! Debian's programs. All of it is made once, in a directory outside of the source tree: `RPCRDMA_LAB_CACHE`, or
//! `rpcrdma-lab` in the user's cache directory. Which version of the kernel that is, the archive says.

mod agent;
mod archive;
mod bench;
mod initramfs;
mod kernel;
mod machine;
mod memcheck;
mod profile;
mod suites;
mod tools;
mod userland;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Subcommand, ValueEnum};

pub use agent::Ran;
use archive::Archive;
use machine::Parts;
pub use machine::{Machine, Ports};
use tools::{at, remove};

/// Kernels that are known to work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Series {
    /// Linux 6.1
    #[default]
    #[value(name = "6.1")]
    V6_1,
    /// Linux 6.12
    #[value(name = "6.12")]
    V6_12,
}

impl Series {
    fn name(self) -> &'static str {
        match self {
            Series::V6_1 => "6.1",
            Series::V6_12 => "6.12",
        }
    }

    /// The one that `RPCRDMA_LAB_KERNEL` names; 6.1 if it names none.
    ///
    /// # Errors
    /// If it names one that is not known.
    pub fn wanted() -> Result<Self, String> {
        match env::var("RPCRDMA_LAB_KERNEL") {
            Ok(name) => {
                Series::from_str(&name, false).map_err(|_| format!("RPCRDMA_LAB_KERNEL: no kernel {name}"))
            }
            Err(_) => Ok(Series::default()),
        }
    }
}

/// What `cargo xtask lab` can be told.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Say whether what the lab is made of is here or can be had, from this machine and the archive; exit status 3 if not
    Check {
        /// For which kernel
        #[command(flatten)]
        kernel: Kernel,
        /// And what test suites of others are made of
        #[arg(long)]
        suites: bool,
        /// And the packages that the feature `verbs` is built with, and valgrind
        #[arg(long)]
        verbs: bool,
        /// And perf
        #[arg(long)]
        profiler: bool,
    },
    /// Make what the guest needs, if it is not there yet, and nothing else
    Build(Kernel),
    /// Make the test suites of others, fio, dbench, fsx and pjdfstest; a guest that runs sees them below /host/suites
    Suites,
    /// Measure our client and our server beside Linux's own, over RDMA devices, in a guest of its own; prints ratios, or what
    /// processors do for a call
    Bench(bench::Options),
    /// Boot a guest that stays until `down`
    Up(Kernel),
    /// Run a command in it, by bash: `cargo xtask lab run uname -a`
    Run {
        /// End it after so many seconds
        #[arg(long, default_value_t = 600)]
        limit: u64,
        /// The command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Say which guest runs, and where its ports are
    Status,
    /// End it
    Down,
}

/// Which kernel the guest has.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Kernel {
    /// The kernel's series; also RPCRDMA_LAB_KERNEL
    #[arg(long, value_enum)]
    kernel: Option<Series>,
}

impl Kernel {
    fn series(self) -> Result<Series, String> {
        self.kernel.map_or_else(Series::wanted, Ok)
    }
}

/// Does it. Returns the exit status of the command that was run, if one was.
///
/// # Errors
/// What is missing or went wrong.
#[allow(clippy::print_stdout, reason = "what was asked for, of a program")]
pub fn run(task: &Task) -> Result<u8, String> {
    let lab = Lab::at_hand;
    match task {
        Task::Check { kernel, suites, verbs, profiler } => {
            let series = kernel.series()?;
            if let Err(why) = tools::check() {
                return Ok(unavailable(why));
            }
            let lab = lab()?;
            let _held = lab.lock()?;
            Ok(lab.check(series, [*suites, *verbs, *profiler]).map_or_else(unavailable, |()| 0))
        }
        Task::Build(kernel) => lab()?.parts(kernel.series()?).map(|_| 0),
        Task::Suites => {
            let lab = lab()?;
            lab.suites()?;
            lab.present().map_or(Ok(()), |machine| lab.bring_suites(&machine)).map(|()| 0)
        }
        Task::Bench(options) => bench::run(&lab()?, options).map(|()| 0),
        Task::Up(kernel) => lab()?.up(kernel.series()?).map(|()| 0),
        Task::Run { limit, command } => {
            let ran = lab()?.present()?.run(&command.join(" "), Duration::from_secs(*limit))?;
            print!("{}", ran.printed);
            Ok(u8::try_from(ran.status).unwrap_or(1))
        }
        Task::Status => {
            match lab()?.present() {
                Ok(machine) => println!("{}", Lab::about(&machine)),
                Err(none) => println!("{none}"),
            }
            Ok(0)
        }
        Task::Down => lab()?.down().map(|()| 0),
    }
}

/// Says what cannot be had. That is no failure of the lab's.
#[allow(clippy::print_stderr, reason = "what was asked for, of a program")]
fn unavailable(why: String) -> u8 {
    eprintln!("lab: {why}");
    3
}

/// Where the lab's pieces are kept.
#[derive(Clone, Debug)]
pub struct Lab {
    cache: PathBuf,
}

impl Lab {
    /// The lab of this user.
    ///
    /// # Errors
    /// If this machine lacks programs, with the packages that have them, or there is no place for the cache.
    pub fn at_hand() -> Result<Self, String> {
        tools::check()?;
        let named = env::var_os("RPCRDMA_LAB_CACHE").map(PathBuf::from);
        let users = || env::var_os("XDG_CACHE_HOME").map(|folder| PathBuf::from(folder).join("rpcrdma-lab"));
        let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/rpcrdma-lab"));
        let cache =
            named.or_else(users).or_else(home).ok_or("set RPCRDMA_LAB_CACHE to a directory for the lab")?;
        fs::create_dir_all(&cache).map_err(at(&cache))?;
        // Programs are run elsewhere, and builds refuse relative paths.
        let cache = cache.canonicalize().map_err(at(&cache))?;
        Ok(Lab { cache })
    }

    /// Boots a guest that ends with the value that is returned, or with this process.
    ///
    /// # Errors
    /// If it cannot be built or booted.
    pub fn boot(&self, series: Series) -> Result<Machine, String> {
        let parts = self.parts(series)?;
        self.sweep();
        Machine::boot(&parts, &self.cache.join(format!("run/{}", std::process::id())), false)
    }

    /// Has the guest see the test suites of others, below /host/suites, and makes them first if they are not there.
    ///
    /// # Errors
    /// If Debian's archive or the registry of crates does not have them, or they cannot be built.
    pub fn bring_suites(&self, machine: &Machine) -> Result<(), String> {
        shared(&self.suites()?, machine, "suites")
    }

    /// Has the guest see valgrind, as a tree to change the root to, /host/memcheck/root, and makes it first if it is not there.
    ///
    /// # Errors
    /// If Debian's archive does not have it.
    pub fn bring_memcheck(&self, machine: &Machine) -> Result<(), String> {
        self.bring(machine, "memcheck", &memcheck::recipe(), memcheck::build)
    }

    /// Has the guest see perf, below /host/profiler, and makes its tree first if it is not there.
    fn bring_profiler(&self, machine: &Machine) -> Result<(), String> {
        self.bring(machine, "profiler", &profile::recipe(), profile::build)
    }

    /// Has the guest see a tree that is kept by this name, and makes it first if it is not there.
    fn bring(
        &self,
        machine: &Machine,
        name: &str,
        recipe: &str,
        build: fn(&Archive, &Path) -> Result<(), String>,
    ) -> Result<(), String> {
        let kept = self.cache.join(name);
        let _held = self.lock()?;
        made(&kept, recipe, |folder| build(&Archive::open(&self.cache)?, folder))?;
        shared(&kept, machine, name)
    }

    fn suites(&self) -> Result<PathBuf, String> {
        let kept = self.cache.join("suites");
        let _held = self.lock()?;
        made(&kept, &suites::recipe(), |folder| {
            suites::build(&Archive::open(&self.cache)?, &self.cache.join("build"), folder)
        })?;
        Ok(kept)
    }

    /// Removes what guests have left whose processes are gone.
    fn sweep(&self) {
        for entry in fs::read_dir(self.cache.join("run")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_string_lossy().parse::<u32>();
            if process.is_ok_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
                let _ = remove(&entry.path());
            }
        }
    }

    fn lock(&self) -> Result<File, String> {
        let lock = self.cache.join("lock");
        File::create(&lock).and_then(|file| file.lock().map(|()| file)).map_err(at(&lock))
    }

    fn up(&self, series: Series) -> Result<(), String> {
        if let Ok(machine) = self.present() {
            return Err(format!("a guest runs already: {}", Lab::about(&machine)));
        }
        let parts = self.parts(series)?;
        let machine = Machine::boot(&parts, &self.cache.join("run/up"), true)?;
        let Ports { agent, nfs_rdma, mount } = machine.ports;
        let words = format!("{} {agent} {nfs_rdma} {mount}\n", machine.process);
        fs::write(self.state(), words).map_err(at(&self.state()))?;
        eprintln!("{}", Lab::about(&machine));
        Ok(())
    }

    fn state(&self) -> PathBuf {
        self.cache.join("run/up/state")
    }

    /// The guest that `up` has booted.
    fn present(&self) -> Result<Machine, String> {
        let none = || "no guest runs; `cargo xtask lab up` boots one".to_owned();
        let state = fs::read_to_string(self.state()).map_err(|_| none())?;
        let mut words = state.split_whitespace();
        let process: u32 = words.next().and_then(|word| word.parse().ok()).ok_or_else(none)?;
        let ports: Vec<u16> = words.filter_map(|word| word.parse().ok()).collect();
        let [agent, nfs_rdma, mount] = ports[..] else { return Err(none()) };
        if !is_qemu(process) {
            return Err(none());
        }
        Ok(Machine::known(Ports { agent, nfs_rdma, mount }, process, &self.cache.join("run/up")))
    }

    fn down(&self) -> Result<(), String> {
        let Ok(machine) = self.present() else {
            eprintln!("no guest runs");
            return Ok(());
        };
        let process = machine.process;
        let began = Instant::now();
        while is_qemu(process) {
            let signal = if began.elapsed() < Duration::from_secs(10) { "-TERM" } else { "-KILL" };
            tools::output(Command::new("kill").arg(signal).arg(process.to_string()))?;
            sleep(Duration::from_millis(200));
        }
        remove(&self.cache.join("run/up"))
    }

    fn about(machine: &Machine) -> String {
        let Ports { agent, nfs_rdma, mount } = machine.ports;
        format!(
            "process {}; on 127.0.0.1: commands at {agent}, NFS over RDMA at {nfs_rdma}, MOUNT at {mount}; \
             its console: {}; it sees as /host: {}",
            machine.process,
            machine.console.display(),
            machine.share().display()
        )
    }

    /// Whether [`Lab::parts`], [`Lab::suites`] and what runs over devices have all that they do not make themselves: what fails then is
    /// their own defect.
    fn check(&self, series: Series, [suites, verbs, profiler]: [bool; 3]) -> Result<(), String> {
        let missing = if verbs { rpcrdma_verbs_packages::missing() } else { Vec::new() };
        if !missing.is_empty() {
            return Err(format!("missing: {}", missing.join(" ")));
        }
        let series = series.name();
        let mut archive = None;
        let kept = |name: &str, recipe: String| is_made(&self.cache.join(name), &recipe);
        if !kept(&format!("linux-{series}"), kernel::recipe()) {
            kernel::can_be_had(opened(&mut archive, &self.cache)?, series)?;
        }
        if !kept("userland", userland::recipe()) {
            opened(&mut archive, &self.cache)?.have(userland::PACKAGES)?;
        }
        if suites && !kept("suites", suites::recipe()) {
            suites::can_be_had(opened(&mut archive, &self.cache)?, &self.cache)?;
        }
        if verbs && !kept("memcheck", memcheck::recipe()) {
            opened(&mut archive, &self.cache)?.have(memcheck::PACKAGES)?;
        }
        if profiler && !kept("profiler", profile::recipe()) {
            opened(&mut archive, &self.cache)?.have(profile::PACKAGES)?;
        }
        // Lists may be older than the archive that they are of.
        archive.map_or(Ok(()), |archive| archive.try_out(&self.cache.join("tried")))
    }

    /// Makes what is not there yet.
    fn parts(&self, series: Series) -> Result<Parts, String> {
        let held = self.lock()?;
        let mut archive = None;
        let series = series.name();
        let kernel = self.cache.join(format!("linux-{series}"));
        made(&kernel, &kernel::recipe(), |folder| {
            kernel::build(opened(&mut archive, &self.cache)?, series, folder)
        })?;
        let userland = self.cache.join("userland");
        made(&userland, &userland::recipe(), |folder| {
            userland::build(opened(&mut archive, &self.cache)?, folder)
        })?;
        let boot = self.cache.join(format!("initrd-{series}"));
        let version = kernel.join("version");
        let version = fs::read_to_string(&version).map_err(at(&version))?;
        let recipe = format!("{version}{}{}{:?}", kernel::recipe(), userland::recipe(), userland::SCRIPTS);
        made(&boot, &recipe, |folder| pack(&kernel, &userland, &folder.join("initrd")))?;
        drop(held);
        Ok(Parts { kernel: kernel.join("vmlinuz"), initrd: boot.join("initrd") })
    }
}

/// The archive, asked for its lists once, and only if something is to be fetched.
fn opened<'a>(archive: &'a mut Option<Archive>, cache: &Path) -> Result<&'a Archive, String> {
    if archive.is_none() {
        *archive = Some(Archive::open(cache)?);
    }
    archive.as_ref().ok_or_else(|| "no archive".to_owned())
}

/// Has the guest see a directory that is kept, below /host.
fn shared(kept: &Path, machine: &Machine, name: &str) -> Result<(), String> {
    let there = machine.share().join(name);
    remove(&there)?;
    tools::output(Command::new("cp").arg("-rl").arg(kept).arg(&there)).map(drop)
}

/// Has a directory made, unless it is there and was made by the same recipe. What fails leaves nothing behind.
fn made(folder: &Path, recipe: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    if is_made(folder, recipe) {
        return Ok(());
    }
    remove(folder)?;
    // In place, since headers of a kernel refer to each other by their whole path. The recipe comes last.
    fs::create_dir_all(folder).map_err(at(folder))?;
    make(folder)?;
    fs::write(folder.join("recipe"), recipe).map_err(at(folder))
}

/// Whether a directory is there and was made by this recipe.
fn is_made(folder: &Path, recipe: &str) -> bool {
    fs::read_to_string(folder.join("recipe")).is_ok_and(|known| known == recipe)
}

/// What the guest boots from: its programs, the kernel's modules, every siw, and our scripts.
fn pack(kernel: &Path, userland: &Path, initrd: &Path) -> Result<(), String> {
    eprintln!("lab: packing the guest");
    let write = || {
        let mut archive = initramfs::Archive::create(initrd)?;
        archive.add_tree(&userland.join("root"))?;
        // The guest's /lib is a link.
        archive.add_tree_at(&kernel.join("modules/lib"), b"usr/lib/")?;
        for module in ["siw-stock.ko", "siw-peers.ko"] {
            archive.add(format!("lab/{module}").as_bytes(), 0o100_644, &fs::read(kernel.join(module))?)?;
        }
        for (name, script) in userland::SCRIPTS {
            archive.add(name.as_bytes(), 0o100_755, script.as_bytes())?;
        }
        archive.finish()
    };
    write().map_err(at(initrd))
}

/// Whether a process is QEMU: numbers of processes are used again.
fn is_qemu(process: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    name.starts_with("qemu-system") && !state.contains(") Z ")
}
