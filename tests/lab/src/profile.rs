//! `cargo xtask lab bench --profile`: profiles calls with perf and reports the processor time by activity.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::archive::Archive;
use crate::tools::remove;

/// The package to unpack. [`Archive::unpack_all`] adds the libraries that it needs.
pub(super) const PACKAGES: &[&str] = &["linux-perf"];
/// The number of samples per second on each processor.
const FREQUENCY: u32 = 499;
/// The line between the output of nfs3bench and the samples.
const SAMPLES: &str = "==== samples";

/// Returns a description of the build inputs. A changed description causes a rebuild.
pub(super) fn recipe() -> String {
    format!("1 {PACKAGES:?}")
}

pub(super) fn build(archive: &Archive, folder: &Path) -> Result<(), String> {
    let root = folder.join("root");
    fs::create_dir_all(&root).map_err(crate::tools::at(&root))?;
    archive.unpack_all(PACKAGES, &root, "with perf")?;
    remove(&root.join("usr/share"))
}

/// Returns a script that runs nfs3bench under perf in the guest and prints the input for [`Profile::of`].
///
/// The output has no inlined functions, because perf needs too much time to resolve them.
pub(super) fn script(arguments: &str) -> String {
    format!(
        "set -e; ulimit -l unlimited
        tree=/host/profiler/root
        perf() {{ /lib64/ld-linux-x86-64.so.2 --library-path $tree/usr/lib/x86_64-linux-gnu:$tree/lib/x86_64-linux-gnu \
            $tree/usr/bin/perf \"$@\"; }}
        rm -f /run/perf.commands /run/perf.data; mkfifo /run/perf.commands
        perf record -q -o /run/perf.data -e cpu-clock -F {FREQUENCY} -g -a --delay=-1 --control=fifo:/run/perf.commands -- \
            /host/nfs3bench --perf /run/perf.commands --rounds 1 {arguments} 2>/run/perf.log ||
            {{ cat /run/perf.log; exit 1; }}
        echo '{SAMPLES}'
        perf script --no-inline -i /run/perf.data -F comm,tid,ip,sym,dso 2>/run/perf.log ||
            {{ cat /run/perf.log; exit 1; }}
        rm /run/perf.data"
    )
}

/// The activity of a processor in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Devices and network: softirqs, and kernel threads other than `nfsd`.
    Devices,
    Interrupts,
    KernelServer,
    KernelClient,
    User,
    Sending,
    Registering,
    Waking,
    Pages,
    Files,
    Other,
    Idle,
}

const PARTS: [(Part, &str); 12] = [
    (Part::Devices, "devices, network, kernel threads"),
    (Part::Interrupts, "interrupts"),
    (Part::KernelServer, "Linux server"),
    (Part::KernelClient, "Linux client and its caller"),
    (Part::User, "ours: user space"),
    (Part::Sending, "ours: posting work requests"),
    (Part::Registering, "ours: (de)registering memory"),
    (Part::Waking, "ours: waiting, waking threads"),
    (Part::Pages, "ours: paging"),
    (Part::Files, "ours: files"),
    (Part::Other, "other"),
    (Part::Idle, "idle"),
];

/// Maps prefixes of kernel function names to activities. The first match wins.
const SYSTEM_CALLS: [(Part, &[&str]); 6] = [
    (Part::Sending, &["ib_uverbs_post_send", "ib_uverbs_post_recv"]),
    (
        Part::Waking,
        &["__x64_sys_epoll_", "__x64_sys_futex", "eventfd_", "__x64_sys_sched_", "__x64_sys_clock_"],
    ),
    (Part::Waking, &["ib_uverbs_comp_event", "ib_uverbs_event_read", "ib_uverbs_req_notify"]),
    (Part::Registering, &["ib_uverbs_", "uverbs_"]),
    (Part::Pages, &["exc_page_fault", "asm_exc_page_fault", "__x64_sys_m", "__x64_sys_brk"]),
    (Part::Files, &["__x64_sys_"]),
];

/// A sample: the thread name and the call stack, starting at the innermost function.
#[derive(Debug)]
struct Sample<'a> {
    thread: &'a str,
    /// True if the innermost function belongs to the kernel.
    in_kernel: bool,
    functions: Vec<&'a str>,
}

impl Sample<'_> {
    fn has(&self, prefixes: &[&str]) -> bool {
        self.functions.iter().any(|function| prefixes.iter().any(|prefix| function.starts_with(prefix)))
    }

    /// Returns the activity of the sample, or `None` if the thread belongs to perf.
    fn part(&self, our_client: bool) -> Option<Part> {
        let interrupted = || self.has(&["asm_sysvec_", "asm_common_interrupt"]);
        let ours = ["tokio-rt-worker", "nfs3d", "rdma-memory"].contains(&self.thread);
        Some(match self.thread {
            thread if thread.starts_with("perf") => return None,
            _ if self.has(&["handle_softirqs", "__do_softirq"]) => Part::Devices,
            thread if thread.starts_with("swapper") && !interrupted() => Part::Idle,
            "nfsd" => Part::KernelServer,
            _ if self.has(&["ret_from_fork"]) && self.has(&["kthread"]) => Part::Devices,
            _ if interrupted() => Part::Interrupts,
            "nfs3bench" if !our_client => Part::KernelClient,
            thread if !ours && thread != "nfs3bench" => Part::Other,
            _ if !self.in_kernel => Part::User,
            _ => SYSTEM_CALLS
                .iter()
                .find(|(_, prefixes)| self.has(prefixes))
                .map_or(Part::Other, |(part, _)| *part),
        })
    }
}

/// Parses the output of perf. The first line of a sample has the thread's name and ID. Each further line has
/// a function: its address, its name, and its file in parentheses.
fn samples(printed: &str) -> impl Iterator<Item = Sample<'_>> {
    printed.split("\n\n").filter_map(|sample| {
        let mut lines = sample.lines().filter(|line| !line.is_empty());
        let (thread, _number) = lines.next()?.trim().rsplit_once(char::is_whitespace)?;
        let frames: Vec<(&str, &str)> = lines.filter_map(|line| line.trim().split_once(' ')).collect();
        // Kernel addresses are in the upper half of the address space.
        let in_kernel = frames.first().is_some_and(|(address, _)| address.len() == 16 && *address >= "8");
        let functions = frames.into_iter().map(|(_, function)| function_name(function.trim())).collect();
        Some(Sample { thread: thread.trim(), in_kernel, functions })
    })
}

/// Returns the function name without the file, or the file name if the function is unknown.
fn function_name(function: &str) -> &str {
    let Some((name, file)) = function.rsplit_once(" (") else { return function };
    if name == "[unknown]" { file.trim_end_matches(')').rsplit('/').next().unwrap_or(name) } else { name }
}

/// The processor time per call in microseconds, by activity. The sum over all activities is approximately the
/// elapsed time per call, multiplied by the number of processors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    /// The times, in the order of `PARTS`.
    parts: [f64; PARTS.len()],
    /// The time of [`Part::User`] by function, the longest first.
    user: Vec<(String, f64)>,
}

impl Profile {
    #[allow(clippy::cast_precision_loss, reason = "a ratio may be rounded")]
    pub(super) fn of(printed: &str, our_client: bool) -> Result<Self, String> {
        let (benchmark, recorded) = printed.split_once(SAMPLES).ok_or("the output has no samples")?;
        let calls = benchmark
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("calls recorded: ")?.parse::<u32>().ok());
        let calls =
            f64::from(calls.filter(|calls| *calls > 0).ok_or_else(|| format!("no calls in: {benchmark}"))?);
        let mut user = BTreeMap::<&str, usize>::new();
        let mut parts = [0; PARTS.len()];
        for sample in samples(recorded) {
            let Some(part) = sample.part(our_client) else { continue };
            parts.iter_mut().zip(PARTS).filter(|(_, (of, _))| *of == part).for_each(|(count, _)| *count += 1);
            if part == Part::User {
                *user.entry(sample.functions.first().unwrap_or(&"[unknown]")).or_default() += 1;
            }
        }
        let microseconds = |samples: usize| samples as f64 / f64::from(FREQUENCY) * 1e6 / calls;
        let mut user: Vec<(String, f64)> =
            user.into_iter().map(|(name, samples)| (name.to_owned(), microseconds(samples))).collect();
        user.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        Ok(Profile { parts: parts.map(microseconds), user })
    }

    /// Lists the user-space functions that use the most time, at most `max`, each with its time per call in
    /// microseconds. Returns `None` if the list is empty.
    pub(super) fn functions(&self, title: &str, max: usize) -> Option<String> {
        let line = |(name, time): &(String, f64)| format!("\n{time:>10.1}  {name}");
        let lines: String = self.user.iter().take(max).map(line).collect();
        if lines.is_empty() { None } else { Some(format!("{title}, user space:{lines}")) }
    }
}

/// Formats a table with a column for each profile, a row for each activity that takes at least 1 µs in some
/// profile, and a row of sums.
pub(super) fn table(title: &str, columns: &[(&str, Profile)]) -> String {
    let line = |name: &str, numbers: Vec<f64>| {
        let numbers: String = numbers.iter().map(|number| format!("{number:>16.0}")).collect();
        format!("{name:<34}{numbers}\n")
    };
    let heads: String = columns.iter().map(|(name, _)| format!("{name:>16}")).collect();
    let mut table = format!("{title:<34}{heads}\n");
    for (at, (_, name)) in PARTS.iter().enumerate() {
        let numbers: Vec<f64> = columns.iter().filter_map(|(_, of)| of.parts.get(at).copied()).collect();
        if numbers.iter().any(|number| *number >= 1.0) {
            table += &line(name, numbers);
        }
    }
    table + &line("all", columns.iter().map(|(_, of)| of.parts.iter().sum()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "/mnt/a\n    by /mnt/a\nin flight       16        \n\
        GETATTR       1.00 (1.00 to 1.00)    \ncalls recorded: 1000\n==== samples\n\
        swapper     0 \n\tffffffffab0e5fff pv_native_safe_halt ([kernel.kallsyms])\n\
        \tffffffffaa5369ab do_idle ([kernel.kallsyms])\n\n\
        swapper     0 \n\tffffffffab0e5fff queue_work_on ([kernel.kallsyms])\n\
        \tffffffffaa5369ab asm_sysvec_call_function ([kernel.kallsyms])\n\n\
        swapper     0 \n\tffffffffab0e5fff tcp_ack ([kernel.kallsyms])\n\
        \tffffffffaa5369ab handle_softirqs ([kernel.kallsyms])\n\n\
        tokio-rt-worker   295 \n\tffffffffab0e5fff copy_to_user ([kernel.kallsyms])\n\
        \tffffffffab0e5ff1 ib_uverbs_comp_event_read ([ib_uverbs])\n\
        \tffffffffab0e5ff1 __x64_sys_read ([kernel.kallsyms])\n\n\
        tokio-rt-worker   295 \n\t           f8090 [unknown] (/usr/lib/libc.so.6)\n\n\
        tokio-rt-worker   295 \n\tffffffffab0e5fff siw_post_send ([siw])\n\
        \tffffffffab0e5ff1 ib_uverbs_post_send ([ib_uverbs])\n\
        \tffffffffab0e5ff1 __x64_sys_write ([kernel.kallsyms])\n\t           f8090 write (/usr/lib/libc.so.6)\n\n\
        tokio-rt-worker   295 \n\tffffffffab0e5fff pin_user_pages ([kernel.kallsyms])\n\
        \tffffffffab0e5ff1 ib_uverbs_reg_mr ([ib_uverbs])\n\n\
        tokio-rt-worker   295 \n\tffffffffab0e5fff tcp_ack ([kernel.kallsyms])\n\
        \tffffffffab0e5ff1 handle_softirqs ([kernel.kallsyms])\n\n\
        tokio-rt-worker   295 \n\tffffffffab0e5fff shmem_file_write_iter ([kernel.kallsyms])\n\
        \tffffffffab0e5ff1 __x64_sys_pwrite64 ([kernel.kallsyms])\n\n\
        kworker/0:1H-xprtiod    21 \n\tffffffffab0f41bd rpc_call ([kernel.kallsyms])\n\
        \tffffffffaa4fd3af kthread ([kernel.kallsyms])\n\
        \tffffffffaa4528e1 ret_from_fork ([kernel.kallsyms])\n\n\
        nfsd    21 \n\tffffffffab0f41bd svc_recv ([kernel.kallsyms])\n\
        \tffffffffaa4fd3af kthread ([kernel.kallsyms])\n\tffffffffaa4528e1 ret_from_fork ([kernel.kallsyms])\n\n\
        nfs3bench   300 \n\t           a0777 [unknown] ([unknown])\n\n\
        perf   301 \n\tffffffffab0f41bd pipe_write ([kernel.kallsyms])\n\n";

    fn found(our_client: bool) -> Vec<Part> {
        samples(PRINTED.split_once(SAMPLES).expect("samples").1)
            .filter_map(|sample| sample.part(our_client))
            .collect()
    }

    #[test]
    fn each_sample_has_one_activity() {
        let common = [
            Part::Idle,
            Part::Interrupts,
            Part::Devices,
            Part::Waking,
            Part::User,
            Part::Sending,
            Part::Registering,
            Part::Devices,
            Part::Files,
            Part::Devices,
            Part::KernelServer,
        ];
        assert_eq!(found(true), [&common[..], &[Part::User]].concat());
        assert_eq!(found(false), [&common[..], &[Part::KernelClient]].concat());
    }

    #[test]
    fn times_are_per_call() {
        // 1,000 calls; each sample represents 1/499 s.
        let Ok(Profile { parts, user }) = Profile::of(PRINTED, false) else { panic!("no profile") };
        assert_eq!(user, [("libc.so.6".to_owned(), 1000.0 / 499.0)]);
        assert!((parts.iter().sum::<f64>() - 12.0 * 1000.0 / 499.0).abs() < 1e-9, "{parts:?}");
        assert!((parts[0] - 3.0 * 1000.0 / 499.0).abs() < 1e-9, "{parts:?}");
        for wrong in ["", "==== samples\n", "calls recorded: 0\n==== samples\n"] {
            assert!(Profile::of(wrong, false).is_err());
        }
    }

    #[test]
    fn functions_of_user_space_are_listed_the_longest_first() {
        let printed = "calls recorded: 1000\n==== samples\n\
            nfs3d     7 \n\t           f8090 <a::B as c::D>::e (/host/nfs3d)\n\n\
            nfs3d     7 \n\t           f8090 <a::B as c::D>::e (/host/nfs3d)\n\t      f8090 main (/host/nfs3d)\n\n\
            nfs3d     7 \n\t           f8090 malloc (/usr/lib/libc.so.6)\n\n";
        let profile = Profile::of(printed, false).expect("a profile");
        let two = "server, user space:\n       4.0  <a::B as c::D>::e\n       2.0  malloc";
        assert_eq!(profile.functions("server", 5).as_deref(), Some(two));
        assert_eq!(profile.functions("server", 1).map(|list| list.lines().count()), Some(2));
        assert_eq!(profile.functions("server", 0), None);
    }

    #[test]
    fn a_table_omits_empty_rows() {
        let mut parts = [0.0; PARTS.len()];
        parts[1] = 12.4;
        let profile = |parts| Profile { parts, user: Vec::new() };
        let printed = table("READ", &[("one", profile(parts)), ("two", profile([0.0; PARTS.len()]))]);
        let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [vec!["READ", "one", "two"], vec!["interrupts", "12", "0"], vec!["all", "12", "0"]]
        );
    }
}
