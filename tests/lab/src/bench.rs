//! `cargo xtask lab bench`: compares our client and server with those of Linux, over the RDMA devices of the
//! guest.
//!
//! With `--profile`, prints the processor time per call, by activity, instead of a comparison.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use crate::profile::{self, Profile};
use crate::tools::{at, output};
use crate::{Kernel, Lab, Machine};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PROGRAMS: [&str; 2] = ["nfs3bench", "nfs3d"];
/// The timeout for a script in the guest. [`compare`] adds the expected time of the measurements.
const SLACK: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Device {
    /// Software iWARP
    Siw,
    /// Software RoCE
    Rxe,
}

impl Device {
    fn script(self) -> &'static str {
        match self {
            Device::Siw => "/lab/siw fixed",
            Device::Rxe => "/lab/rxe",
        }
    }
}

/// Options of `cargo xtask lab bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    kernel: Kernel,
    /// The devices to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Device::Siw, Device::Rxe])]
    device: Vec<Device>,
    /// The number of rounds for each measurement; the table shows ratios of median rates
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The time for each target in a round, in milliseconds
    #[arg(long, default_value_t = 1000)]
    turn: u32,
    /// Profile with perf and print the processor time per call, with 1 and 16 concurrent calls
    #[arg(long, conflicts_with_all = ["rounds", "further"])]
    profile: bool,
    /// Also list the functions of our user-space code that use the most processor time, at most this many
    #[arg(long, requires = "profile")]
    functions: Option<usize>,
    /// Further options for nfs3bench (see `nfs3bench --help`)
    #[arg(last = true)]
    further: Vec<String>,
}

/// Boots a new guest. For each device, prints tables that compare our client and server with Linux's, or
/// prints profiles.
///
/// # Errors
/// Fails if a package is missing or a step fails.
pub(super) fn run(lab: &Lab, options: &Options) -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        return Err(format!(
            "the feature `verbs` needs system packages: apt-get install {}",
            missing.join(" ")
        ));
    }
    let programs = build()?;
    // perf needs the programs' symbols to print function names.
    let strip = if options.functions.is_some() { "--strip-debug" } else { "--strip-all" };
    let series = options.kernel.series()?;
    let machine = lab.boot(series)?;
    for program in &programs {
        let name = program.file_name().unwrap_or_default();
        output(Command::new("strip").arg(strip).arg("-o").arg(machine.share().join(name)).arg(program))?;
    }
    if options.profile {
        lab.bring_profiler(&machine)?;
    }
    for device in &options.device {
        say(&format!("\nLinux {}, {device:?}", series.name()))?;
        run_script(&machine, &SETUP.replace("DEVICE", device.script()), SLACK)?;
        let measure = if options.profile { profile } else { compare };
        measure(&machine, options)?;
        run_script(&machine, TEARDOWN, SLACK)?;
    }
    Ok(())
}

/// Builds the programs in release mode and returns their paths. Assumes that cargo's target directory is the
/// one that contains this program.
fn build() -> Result<Vec<PathBuf>, String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(ROOT).args([
        "build",
        "--release",
        "--package",
        "rpcrdma-nfs",
        "--package",
        "rpcrdma-tools",
        "--features",
        "rpcrdma-nfs/verbs,rpcrdma-tools/verbs",
    ]);
    eprintln!("lab: building {}", PROGRAMS.join(" and "));
    output(cargo.args(PROGRAMS.iter().flat_map(|name| ["--bin", name])))?;
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let target = own.parent().and_then(Path::parent).ok_or("this program is not in a target directory")?;
    Ok(PROGRAMS.iter().map(|name| target.join("release").join(name)).collect())
}

/// The block size is set explicitly, because the kernel's default for a guest with this little memory is
/// below 1 MiB.
const SETUP: &str = "set -e; DEVICE
    modprobe -a rpcrdma nfsd; [ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd
    [ $(cat /proc/fs/nfsd/threads) = 0 ] || rpc.nfsd 0; echo 1048576 >/proc/fs/nfsd/max_block_size; /lab/knfsd
    ulimit -l unlimited; modprobe -a rpcrdma nfs nfsv3
    mkdir -p /run/served /mnt/knfsd /mnt/nfs3d
    (/host/nfs3d --provider verbs --listen 10.0.2.15:20050 --tcp 10.0.2.15:20051 --no-root-squash /run/served \
        >/run/nfs3d.log 2>&1 & echo $! >/run/nfs3d.pid) </dev/null >/dev/null 2>&1
    for second in $(seq 60); do ! grep -q serving /run/nfs3d.log || break; sleep 1; done
    grep serving /run/nfs3d.log || cat /run/nfs3d.log
    how=vers=3,proto=rdma,nolock,mountproto=tcp,rsize=1048576,wsize=1048576
    mount -t nfs -o $how,port=20049,mountport=20048 10.0.2.15:/export /mnt/knfsd
    mount -t nfs -o $how,port=20050,mountport=20051 10.0.2.15:/ /mnt/nfs3d";

const TEARDOWN: &str = "umount /mnt/knfsd; umount /mnt/nfs3d; kill $(cat /run/nfs3d.pid)
    for second in $(seq 60); do kill -0 $(cat /run/nfs3d.pid) 2>/dev/null || exit 0; sleep 1; done; exit 1";

/// The nfs3bench target that uses the kernel's client and the kernel's server.
const KERNEL: &str = "/mnt/knfsd";
/// The nfs3bench target that uses our client and the kernel's server.
const OUR_CLIENT: &str = "'rdma://10.0.2.15:20049/export?provider=verbs&mountport=20048'";
/// The nfs3bench target that uses the kernel's client and our server.
const OUR_SERVER: &str = "/mnt/nfs3d";
/// The comparisons: a title, our target and the kernel's target.
const COMPARISONS: [(&str, [&str; 2]); 2] = [
    ("our client and the kernel's client, with the kernel's server", [OUR_CLIENT, KERNEL]),
    ("our server and the kernel's server, with the kernel's client", [OUR_SERVER, KERNEL]),
];

fn compare(machine: &Machine, options: &Options) -> Result<(), String> {
    let Options { rounds, turn, further, .. } = options;
    // A round has one turn for each of the 2 targets. The rounds are repeated for each of 7 kinds of calls,
    // with each of 2 numbers of concurrent calls. The time is doubled, because written data is verified.
    let turns = Duration::from_millis(u64::from(*turn)) * 2 * 7 * 2 * 2;
    for (title, targets) in COMPARISONS {
        let (further, targets) = (further.join(" "), targets.join(" "));
        let script = format!(
            "ulimit -l unlimited; /host/nfs3bench --rounds {rounds} --turn {turn} {further} {targets}"
        );
        let printed = run_script(machine, &script, SLACK + turns * *rounds)?;
        say(&format!("\n{title}:\n{}", printed.trim_end()))?;
    }
    Ok(())
}

const CALLS: [(&str, &str); 7] = [
    ("GETATTR", "getattr"),
    ("READ 4 KiB", "read --sizes 4096"),
    ("READ 64 KiB", "read --sizes 65536"),
    ("READ 1 MiB", "read --sizes 1048576"),
    ("WRITE 4 KiB", "write --sizes 4096"),
    ("WRITE 64 KiB", "write --sizes 65536"),
    ("WRITE 1 MiB", "write --sizes 1048576"),
];

fn profile(machine: &Machine, options: &Options) -> Result<(), String> {
    let turn = options.turn;
    for (title, calls) in CALLS {
        for in_flight in [1, 16] {
            let mut columns = Vec::new();
            for (name, target) in
                [("Linux only", KERNEL), ("our client", OUR_CLIENT), ("our server", OUR_SERVER)]
            {
                // nfs3bench needs two targets, so the same target is passed twice and gets two consecutive
                // turns.
                let script =
                    format!("--turn {turn} --in-flight {in_flight} --calls {calls} {target} {target}");
                let printed = run_script(machine, &profile::script(&script), SLACK)?;
                columns.push((name, Profile::of(&printed, target == OUR_CLIENT)?));
            }
            let title = format!("{title}, concurrent calls: {in_flight}");
            say(&format!("\n{}", profile::table(&title, &columns).trim_end()))?;
            for (name, profile) in &columns {
                profile.functions(name, options.functions.unwrap_or(0)).map_or(Ok(()), |list| say(&list))?;
            }
        }
    }
    Ok(())
}

fn run_script(machine: &Machine, script: &str, limit: Duration) -> Result<String, String> {
    let ran = machine.run(script, limit)?;
    if ran.status == 0 { Ok(ran.printed) } else { Err(format!("{}\n{}", ran.printed, machine.last_lines())) }
}

fn say(what: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{what}").map_err(at(Path::new("standard output")))
}
