//! `cargo xtask lab bench`: our client and our server beside Linux's own, over the guest's RDMA devices.
//!
//! With `--profile` it says what processors do for a call instead.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;

use crate::profile::{self, Profile};
use crate::tools::{at, output};
use crate::{Kernel, Lab, Machine};

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What is measured, and our server.
const PROGRAMS: [&str; 2] = ["nfs3bench", "nfs3d"];
/// How long one table may take, beyond its turns.
const SLACK: Duration = Duration::from_secs(600);

/// A kind of software device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Device {
    /// Software iWARP
    Siw,
    /// Software RoCE
    Rxe,
}

impl Device {
    /// The guest's script that has it.
    fn script(self) -> &'static str {
        match self {
            Device::Siw => "/lab/siw mended",
            Device::Rxe => "/lab/rxe",
        }
    }
}

/// What is measured, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    kernel: Kernel,
    /// Over which device
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Device::Siw, Device::Rxe])]
    device: Vec<Device>,
    /// How often each has its turn; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long a turn is, in milliseconds
    #[arg(long, default_value_t = 1000)]
    turn: u32,
    /// Print what processors do for a call, 1 and 16 at a time, by Linux's profiler
    #[arg(long, conflicts_with_all = ["rounds", "further"])]
    profile: bool,
    /// List so many of the functions in which our ends' user space is longest, too
    #[arg(long, requires = "profile")]
    functions: Option<usize>,
    /// Further options of nfs3bench, which `nfs3bench --help` has
    #[arg(last = true)]
    further: Vec<String>,
}

/// Boots a guest of its own, and prints a table of our client and one of our server for each device.
///
/// # Errors
/// What is missing or went wrong.
pub(super) fn run(lab: &Lab, options: &Options) -> Result<(), String> {
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        return Err(format!("the feature `verbs` needs packages: apt-get install {}", missing.join(" ")));
    }
    let programs = build()?;
    // The profiler takes names of functions from the programs.
    let needless = if options.functions.is_some() { "--strip-debug" } else { "--strip-all" };
    let series = options.kernel.series()?;
    let machine = lab.boot(series)?;
    for program in &programs {
        let name = program.file_name().unwrap_or_default();
        output(Command::new("strip").arg(needless).arg("-o").arg(machine.share().join(name)).arg(program))?;
    }
    if options.profile {
        lab.bring_profiler(&machine)?;
    }
    for device in &options.device {
        say(&format!("\nLinux {}, {device:?}", series.name()))?;
        done(&machine, &SETUP.replace("DEVICE", device.script()), SLACK)?;
        let measure = if options.profile { profile } else { compare };
        measure(&machine, options)?;
        done(&machine, END, SLACK)?;
    }
    Ok(())
}

/// Builds the programs; they are where this one is, but optimized.
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
    let target = own.parent().and_then(Path::parent).ok_or("this program is in no target directory")?;
    Ok(PROGRAMS.iter().map(|name| target.join("release").join(name)).collect())
}

/// Has the kernel's server and ours serve a directory each, in memory, and the kernel's client mount both. With as little memory as
/// the guest has, the kernel's server would take less than 1 MiB in a call.
const SETUP: &str = "set -e; DEVICE
    modprobe -a rpcrdma nfsd; [ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd
    [ $(cat /proc/fs/nfsd/threads) = 0 ] || rpc.nfsd 0; echo 1048576 >/proc/fs/nfsd/max_block_size; /lab/knfsd
    ulimit -l unlimited; modprobe -a rpcrdma nfs nfsv3
    mkdir -p /run/served /mnt/knfsd /mnt/nfs3d
    (/host/nfs3d --provider verbs --listen 10.0.2.15:20050 --tcp 10.0.2.15:20051 --no-root-squash /run/served \
        >/run/said 2>&1 & echo $! >/run/nfs3d.pid) </dev/null >/dev/null 2>&1
    for second in $(seq 60); do ! grep -q serving /run/said || break; sleep 1; done
    grep serving /run/said || cat /run/said
    how=vers=3,proto=rdma,nolock,mountproto=tcp,rsize=1048576,wsize=1048576
    mount -t nfs -o $how,port=20049,mountport=20048 10.0.2.15:/export /mnt/knfsd
    mount -t nfs -o $how,port=20050,mountport=20051 10.0.2.15:/ /mnt/nfs3d";

const END: &str = "umount /mnt/knfsd; umount /mnt/nfs3d; kill $(cat /run/nfs3d.pid)
    for second in $(seq 60); do kill -0 $(cat /run/nfs3d.pid) 2>/dev/null || exit 0; sleep 1; done; exit 1";

/// Both ends the kernel's, our client of its server, our server under its client.
const KERNEL: &str = "/mnt/knfsd";
const OUR_CLIENT: &str = "'rdma://10.0.2.15:20049/export?provider=verbs&mountport=20048'";
const OUR_SERVER: &str = "/mnt/nfs3d";
/// Who is compared, and both ways.
const PAIRS: [(&str, [&str; 2]); 2] = [
    ("our client beside the kernel's, both of the kernel's server", [OUR_CLIENT, KERNEL]),
    ("our server beside the kernel's, both under the kernel's client", [OUR_SERVER, KERNEL]),
];

fn compare(machine: &Machine, options: &Options) -> Result<(), String> {
    let Options { rounds, turn, further, .. } = options;
    // Two ways, seven kinds of calls, two numbers of calls in flight; as long again for looking at what was written.
    let turns = Duration::from_millis(u64::from(*turn)) * 2 * 7 * 2 * 2;
    for (what, ways) in PAIRS {
        let (further, ways) = (further.join(" "), ways.join(" "));
        let script =
            format!("ulimit -l unlimited; /host/nfs3bench --rounds {rounds} --turn {turn} {further} {ways}");
        let printed = done(machine, &script, SLACK + turns * *rounds)?;
        say(&format!("\n{what}:\n{}", printed.trim_end()))?;
    }
    Ok(())
}

/// What is profiled, as it is called here and in nfs3bench's options.
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
    for (what, calls) in CALLS {
        for in_flight in [1, 16] {
            let mut columns = Vec::new();
            for (who, way) in
                [("both Linux's", KERNEL), ("our client", OUR_CLIENT), ("our server", OUR_SERVER)]
            {
                // The same way twice: two turns, and nobody else's between.
                let script = format!("--turn {turn} --in-flight {in_flight} --calls {calls} {way} {way}");
                let printed = done(machine, &profile::script(&script), SLACK)?;
                columns.push((who, Profile::of(&printed, way == OUR_CLIENT)?));
            }
            let what = format!("{what}, {in_flight} at a time");
            say(&format!("\n{}", profile::table(&what, &columns).trim_end()))?;
            for (who, profile) in &columns {
                profile.functions(who, options.functions.unwrap_or(0)).map_or(Ok(()), |list| say(&list))?;
            }
        }
    }
    Ok(())
}

/// Runs a script in the guest that must succeed.
fn done(machine: &Machine, script: &str, limit: Duration) -> Result<String, String> {
    let ran = machine.run(script, limit)?;
    if ran.status == 0 { Ok(ran.printed) } else { Err(format!("{}\n{}", ran.printed, machine.last_words())) }
}

fn say(what: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{what}").map_err(at(Path::new("standard output")))
}
