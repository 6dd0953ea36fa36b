//! `cargo xtask lab`: runs Linux's NFS/RDMA client and server in a guest, without RDMA hardware and without
//! privileges.
//!
//! The guest runs a Debian kernel under QEMU, with software iWARP built from the source of that kernel, and
//! programs from Debian. When the lab downloads a kernel, it selects the newest version of the requested
//! series (such as 6.1) in Debian's package archive.
//!
//! The built parts of the guest are cached in the directory that `RPCRDMA_LAB_CACHE` names, or else in
//! `rpcrdma-lab` in the user's cache directory.

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

/// A supported kernel series.
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

    /// Returns the series in `RPCRDMA_LAB_KERNEL`, or 6.1 if the variable is not set or not valid Unicode.
    ///
    /// # Errors
    /// Fails if the variable contains an unknown series.
    pub fn wanted() -> Result<Self, String> {
        match env::var("RPCRDMA_LAB_KERNEL") {
            Ok(name) => Series::from_str(&name, false)
                .map_err(|_| format!("RPCRDMA_LAB_KERNEL: unknown kernel series {name} (known: 6.1, 6.12)")),
            Err(_) => Ok(Series::default()),
        }
    }
}

/// The subcommands of `cargo xtask lab`.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Check that the parts of the guest are built or can be built on this machine; exit status 3 if not
    Check {
        /// The kernel of the guest
        #[command(flatten)]
        kernel: Kernel,
        /// Also check the third-party test suites
        #[arg(long)]
        suites: bool,
        /// Also check the build dependencies of the feature `verbs`, and valgrind
        #[arg(long)]
        verbs: bool,
        /// Also check perf
        #[arg(long)]
        profiler: bool,
    },
    /// Build the parts of the guest that are not built yet
    Build(Kernel),
    /// Build the third-party test suites fio, dbench, fsx and pjdfstest, and share them with a running guest
    /// as /host/suites
    Suites,
    /// Compare our client and server with those of Linux over RDMA devices, in a new guest; print ratios or
    /// profiles
    Bench(bench::Options),
    /// Boot a guest that runs until `down`
    Up(Kernel),
    /// Run a bash command in the running guest: `cargo xtask lab run uname -a`
    Run {
        /// The timeout in seconds
        #[arg(long, default_value_t = 600)]
        limit: u64,
        /// The command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Show the running guest and its ports
    Status,
    /// Terminate the running guest
    Down,
}

/// The kernel of the guest.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Kernel {
    /// The kernel series (default: RPCRDMA_LAB_KERNEL, or else 6.1)
    #[arg(long, value_enum)]
    kernel: Option<Series>,
}

impl Kernel {
    fn series(self) -> Result<Series, String> {
        self.kernel.map_or_else(Series::wanted, Ok)
    }
}

/// Runs a subcommand and returns the exit status for this process.
///
/// # Errors
/// Fails if a program or package is missing, or if a step fails. [`Task::Check`] returns the exit status 3
/// instead if something is missing.
#[allow(clippy::print_stdout, reason = "the output of a command-line program")]
pub fn run(task: &Task) -> Result<u8, String> {
    let lab = Lab::detect;
    match task {
        Task::Check { kernel, suites, verbs, profiler } => {
            let series = kernel.series()?;
            if let Err(error) = tools::check() {
                return Ok(unavailable(error));
            }
            let lab = lab()?;
            let _lock = lab.lock()?;
            Ok(lab.check(series, [*suites, *verbs, *profiler]).map_or_else(unavailable, |()| 0))
        }
        Task::Build(kernel) => lab()?.parts(kernel.series()?).map(|_| 0),
        Task::Suites => {
            let lab = lab()?;
            lab.suites()?;
            lab.running().map_or(Ok(()), |machine| lab.bring_suites(&machine)).map(|()| 0)
        }
        Task::Bench(options) => bench::run(&lab()?, options).map(|()| 0),
        Task::Up(kernel) => lab()?.up(kernel.series()?).map(|()| 0),
        Task::Run { limit, command } => {
            let ran = lab()?.running()?.run(&command.join(" "), Duration::from_secs(*limit))?;
            print!("{}", ran.printed);
            Ok(u8::try_from(ran.status).unwrap_or(1))
        }
        Task::Status => {
            match lab()?.running() {
                Ok(machine) => println!("{}", Lab::describe(&machine)),
                Err(message) => println!("{message}"),
            }
            Ok(0)
        }
        Task::Down => lab()?.down().map(|()| 0),
    }
}

#[allow(clippy::print_stderr, reason = "the output of a command-line program")]
fn unavailable(message: String) -> u8 {
    eprintln!("lab: {message}");
    3
}

/// Builds and boots guests, and stores the built parts of guests in a cache directory.
#[derive(Clone, Debug)]
pub struct Lab {
    cache: PathBuf,
}

impl Lab {
    /// Opens the lab of this user.
    ///
    /// # Errors
    /// Fails if programs are missing; the error lists the packages to install. Also fails on systems other
    /// than Linux on amd64, and if the cache directory is unknown or cannot be created.
    pub fn detect() -> Result<Self, String> {
        tools::check()?;
        let explicit = env::var_os("RPCRDMA_LAB_CACHE").map(PathBuf::from);
        let xdg = || env::var_os("XDG_CACHE_HOME").map(|folder| PathBuf::from(folder).join("rpcrdma-lab"));
        let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/rpcrdma-lab"));
        let cache =
            explicit.or_else(xdg).or_else(home).ok_or("unknown cache directory: set RPCRDMA_LAB_CACHE")?;
        fs::create_dir_all(&cache).map_err(at(&cache))?;
        // Commands run in other directories, and some builds reject relative paths.
        let cache = cache.canonicalize().map_err(at(&cache))?;
        Ok(Lab { cache })
    }

    /// Boots a guest. The guest ends when the returned value is dropped or this process exits.
    ///
    /// # Errors
    /// Fails if the guest cannot be built or booted.
    pub fn boot(&self, series: Series) -> Result<Machine, String> {
        let parts = self.parts(series)?;
        self.remove_stale_runs();
        Machine::boot(&parts, &self.cache.join(format!("run/{}", std::process::id())), false)
    }

    /// Shares the third-party test suites with the guest as /host/suites. Builds them if necessary.
    ///
    /// # Errors
    /// Fails if a suite is not available from Debian or crates.io, or cannot be built.
    pub fn bring_suites(&self, machine: &Machine) -> Result<(), String> {
        share(&self.suites()?, machine, "suites")
    }

    /// Shares valgrind with the guest, as a directory tree for chroot: /host/memcheck/root. Builds the tree
    /// if necessary.
    ///
    /// # Errors
    /// Fails if a package is not available from Debian.
    pub fn bring_memcheck(&self, machine: &Machine) -> Result<(), String> {
        self.bring(machine, "memcheck", &memcheck::recipe(), memcheck::build)
    }

    fn bring_profiler(&self, machine: &Machine) -> Result<(), String> {
        self.bring(machine, "profiler", &profile::recipe(), profile::build)
    }

    fn bring(
        &self,
        machine: &Machine,
        name: &str,
        recipe: &str,
        build: fn(&Archive, &Path) -> Result<(), String>,
    ) -> Result<(), String> {
        let folder = self.cache.join(name);
        let _lock = self.lock()?;
        build_once(&folder, recipe, |folder| build(&Archive::open(&self.cache)?, folder))?;
        share(&folder, machine, name)
    }

    fn suites(&self) -> Result<PathBuf, String> {
        let folder = self.cache.join("suites");
        let _lock = self.lock()?;
        build_once(&folder, &suites::recipe(), |folder| {
            suites::build(&Archive::open(&self.cache)?, &self.cache.join("build"), folder)
        })?;
        Ok(folder)
    }

    /// Removes the directories of guests that [`Lab::boot`] booted in processes that have exited.
    fn remove_stale_runs(&self) {
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
        if let Ok(machine) = self.running() {
            return Err(format!("a guest is already running: {}", Lab::describe(&machine)));
        }
        let parts = self.parts(series)?;
        let machine = Machine::boot(&parts, &self.cache.join("run/up"), true)?;
        let Ports { agent, nfs_rdma, nfs_tcp, mount } = machine.ports;
        let words = format!("{} {agent} {nfs_rdma} {nfs_tcp} {mount}\n", machine.process);
        fs::write(self.state(), words).map_err(at(&self.state()))?;
        eprintln!("{}", Lab::describe(&machine));
        Ok(())
    }

    fn state(&self) -> PathBuf {
        self.cache.join("run/up/state")
    }

    /// Returns the guest that `up` booted.
    fn running(&self) -> Result<Machine, String> {
        let none = || "no guest is running; `cargo xtask lab up` boots one".to_owned();
        let state = fs::read_to_string(self.state()).map_err(|_| none())?;
        let mut words = state.split_whitespace();
        let process: u32 = words.next().and_then(|word| word.parse().ok()).ok_or_else(none)?;
        let ports: Vec<u16> = words.filter_map(|word| word.parse().ok()).collect();
        let [agent, nfs_rdma, nfs_tcp, mount] = ports[..] else { return Err(none()) };
        if !is_qemu(process) {
            return Err(none());
        }
        Ok(Machine::known(Ports { agent, nfs_rdma, nfs_tcp, mount }, process, &self.cache.join("run/up")))
    }

    fn down(&self) -> Result<(), String> {
        let Ok(machine) = self.running() else {
            eprintln!("no guest is running");
            return Ok(());
        };
        let process = machine.process;
        let began = Instant::now();
        while is_qemu(process) {
            let signal = if began.elapsed() < Duration::from_secs(10) { "-TERM" } else { "-KILL" };
            let sent = tools::output(Command::new("kill").arg(signal).arg(process.to_string()));
            if is_qemu(process) {
                sent?;
                sleep(Duration::from_millis(200));
            }
        }
        remove(&self.cache.join("run/up"))
    }

    fn describe(machine: &Machine) -> String {
        let Ports { agent, nfs_rdma, nfs_tcp, mount } = machine.ports;
        format!(
            "process {}; ports on 127.0.0.1: agent {agent}, NFS over RDMA {nfs_rdma}, NFS over TCP {nfs_tcp}, \
             MOUNT {mount}; \
             console: {}; shared as /host: {}",
            machine.process,
            machine.console.display(),
            machine.share().display()
        )
    }

    /// Checks that the external inputs are available for each requested part that is not built yet. A later
    /// build failure then indicates a defect in the lab.
    fn check(&self, series: Series, [suites, verbs, profiler]: [bool; 3]) -> Result<(), String> {
        let missing = if verbs { rpcrdma_verbs_packages::missing() } else { Vec::new() };
        if !missing.is_empty() {
            return Err(format!("missing packages; on Debian: apt-get install {}", missing.join(" ")));
        }
        let series = series.name();
        let mut archive = None;
        let is_cached = |name: &str, recipe: String| is_built(&self.cache.join(name), &recipe);
        if !is_cached(&format!("linux-{series}"), kernel::recipe()) {
            kernel::check_available(opened(&mut archive, &self.cache)?, series)?;
        }
        if !is_cached("userland", userland::recipe()) {
            opened(&mut archive, &self.cache)?.have(userland::PACKAGES)?;
        }
        if suites && !is_cached("suites", suites::recipe()) {
            suites::check_available(opened(&mut archive, &self.cache)?, &self.cache)?;
        }
        if verbs && !is_cached("memcheck", memcheck::recipe()) {
            opened(&mut archive, &self.cache)?.have(memcheck::PACKAGES)?;
        }
        if profiler && !is_cached("profiler", profile::recipe()) {
            opened(&mut archive, &self.cache)?.have(profile::PACKAGES)?;
        }
        // The package lists may be outdated, so a trial download is needed.
        archive.map_or(Ok(()), |archive| archive.try_out(&self.cache.join("tried")))
    }

    fn parts(&self, series: Series) -> Result<Parts, String> {
        let lock = self.lock()?;
        let mut archive = None;
        let series = series.name();
        let kernel = self.cache.join(format!("linux-{series}"));
        build_once(&kernel, &kernel::recipe(), |folder| {
            kernel::build(opened(&mut archive, &self.cache)?, series, folder)
        })?;
        let userland = self.cache.join("userland");
        build_once(&userland, &userland::recipe(), |folder| {
            userland::build(opened(&mut archive, &self.cache)?, folder)
        })?;
        let boot = self.cache.join(format!("initrd-{series}"));
        let version = kernel.join("version");
        let version = fs::read_to_string(&version).map_err(at(&version))?;
        let recipe = format!("{version}{}{}{:?}", kernel::recipe(), userland::recipe(), userland::SCRIPTS);
        build_once(&boot, &recipe, |folder| pack(&kernel, &userland, &folder.join("initrd")))?;
        drop(lock);
        Ok(Parts { kernel: kernel.join("vmlinuz"), initrd: boot.join("initrd") })
    }
}

/// Opens the archive on the first call, so that package lists are downloaded only if something must be
/// fetched.
fn opened<'a>(archive: &'a mut Option<Archive>, cache: &Path) -> Result<&'a Archive, String> {
    if archive.is_none() {
        *archive = Some(Archive::open(cache)?);
    }
    archive.as_ref().ok_or_else(|| "the archive is not open".to_owned())
}

/// Shares a directory with the guest as `/host/{name}`, and replaces an earlier copy.
fn share(folder: &Path, machine: &Machine, name: &str) -> Result<(), String> {
    let target = machine.share().join(name);
    remove(&target)?;
    tools::output(Command::new("cp").arg("-rl").arg(folder).arg(&target)).map(drop)
}

/// Builds the content of `folder` from scratch, unless `folder` has a complete build with this recipe.
fn build_once(
    folder: &Path,
    recipe: &str,
    build: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    if is_built(folder, recipe) {
        return Ok(());
    }
    remove(folder)?;
    // Build at the final path, because kernel headers refer to each other by absolute paths. The recipe is
    // written last and marks a complete build.
    fs::create_dir_all(folder).map_err(at(folder))?;
    build(folder)?;
    fs::write(folder.join("recipe"), recipe).map_err(at(folder))
}

fn is_built(folder: &Path, recipe: &str) -> bool {
    fs::read_to_string(folder.join("recipe")).is_ok_and(|known| known == recipe)
}

fn pack(kernel: &Path, userland: &Path, initrd: &Path) -> Result<(), String> {
    eprintln!("lab: packing the guest");
    let write = || {
        let mut archive = initramfs::Archive::create(initrd)?;
        archive.add_tree(&userland.join("root"))?;
        // The guest's /lib is a link to /usr/lib.
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

/// Returns true if `process` is the id of a running QEMU. Process ids are reused, so the process name is
/// checked.
fn is_qemu(process: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    name.starts_with("qemu-system") && !state.contains(") Z ")
}
