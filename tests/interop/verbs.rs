//! Tests on RDMA devices. Programs built with the feature `verbs` run in the guest, over software iWARP (siw)
//! and software RoCE (rxe). The programs communicate with each other, the kernel's NFS server and the
//! kernel's client.
//!
//! The tests need the system packages that the feature requires. `RPCRDMA_LAB_VERBS=no` disables the tests.
//! Some tests run only with `RPCRDMA_LAB=long`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{MutexGuard, OnceLock};
use std::time::Duration;

use crate::guest::{Guest, Siw, guest, lab_enabled, server, size};
use crate::inside;
use crate::mounted::mount;
use crate::place::{Device, GUEST, Ours};

/// Returns true if `RPCRDMA_LAB=long`. Otherwise records that the test did not run.
fn long() -> bool {
    let long = size(false, true);
    if !long {
        not_run::not_run("RPCRDMA_LAB is not `long`");
    }
    long
}

/// Returns the names and paths of the programs built with the feature `verbs`. If packages are missing or the
/// tests are disabled, records that the test did not run and returns `None`.
fn built() -> Option<&'static [(String, PathBuf)]> {
    static BUILT: OnceLock<Result<Vec<(String, PathBuf)>, String>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref().map_err(not_run::not_run).ok()
}

fn build() -> Result<Vec<(String, PathBuf)>, String> {
    if std::env::var("RPCRDMA_LAB_VERBS").is_ok_and(|value| value == "no") {
        return Err("RPCRDMA_LAB_VERBS=no".to_owned());
    }
    let missing = rpcrdma_verbs_packages::missing();
    if !missing.is_empty() {
        return Err(format!("packages missing for the feature `verbs`: {}", missing.join(" ")));
    }
    Ok(with_the_feature(&["scenarios", "verbs", "interop", "explain"]))
}

fn with_the_feature(tests: &[&str]) -> Vec<(String, PathBuf)> {
    // Omit --package, so that cargo does not compile dependencies again with fewer features.
    let build =
        ["test", "--no-run", "--features", "rpcrdma-tests/verbs,rpcrdma-nfs/verbs,rpcrdma-tools/verbs"];
    // The guest is slow without KVM, so these crates are optimized.
    let optimized = ["rpcrdma-runtime", "rpcrdma-verbs", "rpcrdma-nfs3", "rpcrdma-nfs"]
        .map(|package| format!("profile.dev.package.{package}.opt-level=1"));
    let optimized = optimized.iter().flat_map(|setting| ["--config", setting]);
    let tests = tests.iter().flat_map(|test| ["--test", test]);
    let arguments = build.into_iter().chain(optimized).chain(tests);
    let mut programs = inside::build(&arguments.collect::<Vec<_>>());
    // Building the test `explain` also builds the program `rpcrdma`.
    let wanted = ["scenarios", "verbs", "interop", "nfs3d", "nfs3", "rpcrdma"];
    programs.retain(|(name, _)| wanted.contains(&name.as_str()));
    programs
}

/// Sets up the device in the guest, and makes the programs built with the feature `verbs` available in the
/// guest's directory `/run/bin`. If `knfsd` is true, also starts the kernel's server. Returns the guest, or
/// `None` if the test cannot run.
pub(crate) fn with(device: Device, knfsd: bool) -> Option<MutexGuard<'static, Guest>> {
    // If the lab is disabled, skip the build. `server` or `guest` then records that the test did not run.
    let programs = if lab_enabled() { built()? } else { &[] };
    let mut guest = if knfsd { server(Siw::Fixed)? } else { guest(Siw::Fixed)? };
    inside::bring(&guest, Ours::Verbs(device), programs);
    if device == Device::Rxe {
        guest.run("/lab/rxe");
        guest.forget_device();
    }
    Some(guest)
}

fn resources(guest: &Guest) -> String {
    guest.run("rdma resource show")
}

/// Runs the tests of `program` whose names contain a word of `filter`, or all of its tests if `filter` is
/// empty. Fails if a word matches no test. Returns the output.
fn run_tests(guest: &Guest, address: &str, program: &str, filter: &str) -> String {
    let unmatched = guest.run(&format!(
        "for word in {filter}; do \
         [ $(/run/bin/{program} --list $word | grep -c ': test$') -gt 0 ] || echo $word; done"
    ));
    assert_eq!(unmatched.trim(), "", "words of a filter match no test");
    let ran = guest.run(&format!(
        "ulimit -l unlimited; \
             RPCRDMA_VERBS={address} /run/bin/{program} --test-threads=1 --nocapture {filter}"
    ));
    let none = ran.contains("running 0 tests");
    assert!(ran.contains("test result: ok") && !ran.contains("RPCRDMA_VERBS is not set") && !none, "{ran}");
    ran
}

fn each_scenario(device: Device) {
    let Some(guest) = with(device, false) else { return };
    run_tests(&guest, GUEST, "scenarios", "over_verbs");
}

const IPV6: &str = "fd00::15";

fn over_ipv6(device: Device) {
    let Some(guest) = with(device, false) else { return };
    guest.run(&format!("ip -6 address replace {IPV6}/64 dev eth0 nodad"));
    run_tests(&guest, IPV6, "verbs", "private depths memory short_data messages");
    if size(false, true) {
        run_tests(&guest, IPV6, "scenarios", "over_verbs");
    }
    guest.run(&format!("ip -6 address delete {IPV6}/64 dev eth0"));
}

#[test]
fn ipv6_over_siw() {
    over_ipv6(Device::Siw);
}

#[test]
fn ipv6_over_rxe() {
    over_ipv6(Device::Rxe);
}

#[test]
fn ports_in_use_over_siw() {
    let Some(guest) = with(Device::Siw, false) else { return };
    let ran = run_tests(&guest, GUEST, "verbs", "ports_in_use_by_tcp");
    assert!(!ran.contains("not run"), "{ran}");
}

#[test]
fn info_lists_devices() {
    let Some(guest) = with(Device::Siw, false) else { return };
    let output = guest.run(&format!("/run/bin/rpcrdma info {GUEST}:20049 192.0.2.1:20049"));
    assert!(output.starts_with("siw0: iWARP"), "{output}");
    assert!(output.contains("port 1: active") && output.contains("GID "), "{output}");
    assert!(
        output.contains(&format!(
            "{GUEST}:20049: --provider auto connects with verbs (siw0) and listens with verbs"
        )),
        "{output}"
    );
    assert!(output.contains("192.0.2.1:20049: --provider auto connects with"), "{output}");
    let both = guest.run(
        "modprobe rdma_rxe; rdma link add other type rxe netdev eth0; /run/bin/rpcrdma info; rdma link delete other",
    );
    let [siw, other] = ["siw0: iWARP, GUID ", "other: InfiniBand or RoCE, GUID "].map(|begins| {
        let (_, description) = both.split_once(begins).unwrap_or_else(|| panic!("{both}"));
        description.lines().take(3).map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!([&siw[2], &other[2]], ["  no memory windows of type 2", "  memory windows of type 2"]);
    for limits in [&siw[1], &other[1]] {
        let numbers: Vec<u64> = limits.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers.len() == 4 && numbers.iter().all(|number| *number > 0), "{both}");
    }
}

#[test]
fn scenarios_are_the_same_over_siw() {
    if long() {
        each_scenario(Device::Siw);
    }
}

#[test]
fn scenarios_are_the_same_over_rxe() {
    each_scenario(Device::Rxe);
}

/// Checks that the verbs tests leave no kernel resources allocated.
fn check_released(device: Device) {
    let Some(guest) = with(device, false) else { return };
    let before = resources(&guest);
    run_tests(&guest, GUEST, "verbs", "");
    assert_eq!(resources_after(&guest, &before), before.trim());
}

/// Waits up to a minute for the kernel's counts of RDMA resources to equal `before`. Returns the last counts.
fn resources_after(guest: &Guest, before: &str) -> String {
    let after = guest.run(&format!(
        "for second in $(seq 60); do now=$(rdma resource show); [ \"$now\" = \"{}\" ] && break; sleep 1; done; \
         echo \"$now\"",
        before.trim()
    ));
    after.trim().to_owned()
}

#[test]
fn siw_connections_leave_no_resources() {
    if long() {
        check_released(Device::Siw);
    }
}

#[test]
fn rxe_connections_leave_no_resources() {
    if long() {
        check_released(Device::Rxe);
    }
}

/// Deletes a device under load and adds it again. Calls fail while the device is missing, but the client and
/// the server keep running.
///
/// A second device exists throughout the test, because librdmacm closes a device only if another device
/// exists. The kernel deletes a software device only after librdmacm has closed it.
fn device_removal(device: Device) {
    let Some(guest) = with(device, false) else { return };
    let link = match device {
        Device::Siw => "siw0 siw eth0",
        Device::Rxe => "rxe0 rxe eth0",
    };
    guest.run(&format!(
        "rdma link add other type siw netdev lo; \
         RPCRDMA_VERBS={GUEST} RPCRDMA_VERBS_LINK='{link}' \
         /run/bin/verbs --test-threads=1 --nocapture the_device_is_back >/run/output 2>&1; failed=$?; \
         rdma link delete other; cat /run/output; grep -q 'not run' /run/output && exit 1; \
         grep -q ' 1 passed' /run/output && exit $failed"
    ));
}

#[test]
fn siw_is_removed_and_restored_under_load() {
    if long() {
        device_removal(Device::Siw);
    }
}

#[test]
fn rxe_is_removed_and_restored_under_load() {
    device_removal(Device::Rxe);
}

/// Returns the value for `--provider`. With rxe, the value is `auto`, which must select verbs: user-space
/// iWARP cannot connect to rxe.
fn provider(device: Device) -> &'static str {
    if device == Device::Rxe { "auto" } else { "verbs" }
}

fn files_of_the_kernel(device: Device) {
    let Some(guest) = with(device, true) else { return };
    let provider = provider(device);
    let url = format!("rdma://{GUEST}:20049/export/verbs?mountport=20048");
    guest.run("mkdir -p /run/files; for size in 0 1 4095 70001 5242881; do head -c $size /dev/urandom >/run/files/$size; done");
    guest.run(
        "mkdir -p /export/verbs; cd /run/files && for file in *; do \
               sha256sum $file >>/run/files.sums; done",
    );
    guest.run(&format!(
        "cd /run/files; for file in *; do \
         /run/bin/nfs3 --provider {provider} put --verify $file '{}' || exit 1; done; \
         cd /export/verbs && sha256sum --quiet -c /run/files.sums",
        url.replace("/verbs?", "/verbs/?")
    ));
    guest.run(&format!(
        "mkdir -p /run/back; cd /run/back; for file in $(ls /run/files); do \
         /run/bin/nfs3 --provider {provider} get \"rdma://{GUEST}:20049/export/verbs/$file?mountport=20048\" || exit 1; \
         done; sha256sum --quiet -c /run/files.sums && rm -r /run/back /run/files /run/files.sums /export/verbs"
    ));
}

/// This test does not run over siw, because siw has no memory windows.
#[test]
fn windows_over_rxe() {
    let Some(guest) = with(Device::Rxe, true) else { return };
    guest.run("head -c 1048576 /dev/zero >/export/windowed");
    let before = resources(&guest);
    run_tests(&guest, GUEST, "verbs", "window invalidat constants advertised");
    let of_the_kernel = guest.run(&format!(
        "ulimit -l unlimited; RPCRDMA_VERBS_KNFSD={GUEST} \
         /run/bin/verbs --nocapture the_kernels_server_invalidates_windows; rm /export/windowed"
    ));
    assert!(of_the_kernel.contains("1 passed") && !of_the_kernel.contains("not run"), "{of_the_kernel}");
    assert_eq!(resources_after(&guest, &before), before.trim());
}

#[test]
fn files_of_the_kernels_server_over_siw() {
    files_of_the_kernel(Device::Siw);
}

#[test]
fn files_of_the_kernels_server_over_rxe() {
    if long() {
        files_of_the_kernel(Device::Rxe);
    }
}

const SERVE: &str = "mkdir -p /run/served; rm -f /run/output; ulimit -l unlimited; \
    (/run/bin/nfs3d --provider PROVIDER --listen GUEST:20050 --tcp GUEST:20051 --no-root-squash /run/served \
    >/run/output 2>&1 & echo $! >/run/nfs3d.pid) </dev/null >/dev/null 2>&1; \
    for second in $(seq 20); do grep -q serving /run/output && exit 0; sleep 1; done; cat /run/output; exit 1";

const STOP: &str = "kill $(cat /run/nfs3d.pid); \
    for second in $(seq 20); do kill -0 $(cat /run/nfs3d.pid) 2>/dev/null || exit 0; sleep 1; done; exit 1";

const WORK: &str = "set -e; mkdir -p /run/tree/a; cd /run/tree; \
    for i in $(seq 1 40); do head -c $((i * i * i * 7 + i)) /dev/urandom >a/file$i; done; \
    head -c 3145729 /dev/urandom >large; ln -s a/file1 link; chmod 640 a/file2; \
    cp -a /run/tree /mnt/tree; sync; echo 3 >/proc/sys/vm/drop_caches; \
    rsync -rlpHn --checksum --itemize-changes --delete /run/tree/ /mnt/tree/ >/run/different; \
    cat /run/different; [ ! -s /run/different ]; rm -r /mnt/tree /run/tree; umount /mnt";

fn mounted_by_the_kernel(device: Device) {
    let Some(guest) = with(device, false) else { return };
    let before = resources(&guest);
    guest.run(&SERVE.replace("GUEST", GUEST).replace("PROVIDER", provider(device)));
    mount(&guest, GUEST, 20050, 20051);
    guest.run(WORK);
    let long = guest.run(&format!(
        "ulimit -l unlimited; touch /run/served/long; chmod 666 /run/served/long
         RPCRDMA_VERBS_NFS3D={GUEST} /run/bin/verbs --nocapture long_calls_of_another_user; failed=$?
         [ $failed = 0 ] || cat /run/output; rm /run/served/long; exit $failed"
    ));
    assert!(long.contains("1 passed") && !long.contains("not run"), "{long}");
    guest.run(STOP);
    let left = guest.run("ls -A /run/served");
    assert_eq!(left.trim(), "");
    assert_eq!(resources_after(&guest, &before), before.trim());
}

#[test]
fn the_kernels_client_mounts_over_siw() {
    mounted_by_the_kernel(Device::Siw);
}

#[test]
fn the_kernels_client_mounts_over_rxe() {
    if long() {
        mounted_by_the_kernel(Device::Rxe);
    }
}

/// Runs tests of the program `verbs` under valgrind, but only those that finish in a reasonable time.
fn valgrind_finds_no_errors(device: Device) {
    let Some(guest) = with(device, false) else { return };
    guest.bring_memcheck();
    let dir = tempfile::tempdir().unwrap();
    let (_, program) = built().unwrap().iter().find(|(name, _)| name == "verbs").unwrap();
    // Strip only debug sections, so that valgrind can print function names.
    let named = dir.path().join("memcheck-verbs");
    let stripped = Command::new("strip").args(["--strip-debug", "-o"]).arg(&named).arg(program).status();
    assert!(stripped.unwrap().success());
    let there = guest.bring(&named.to_string_lossy());
    let mut filters =
        vec!["private", "rejection", "depths", "short_data", "short_me", "unsolicited_invalidation"];
    if size(false, true) {
        filters.extend([
            "memory_is_read",
            "messages_of",
            "sent_before",
            "without_a_listener",
            "offered_only",
        ]);
        if device == Device::Rxe {
            filters.extend(["an_invalidated_window", "a_server_invalidates"]);
        }
    }
    let arguments = filters.join(" ");
    let (status, output) = guest.try_run(
        &format!(
            "root=/host/memcheck/root; ulimit -l unlimited
             for at in dev proc sys; do mount --bind /$at $root/$at; done; mount -t tmpfs tmpfs $root/tmp
             cp {there} $root/tmp/verbs; export RPCRDMA_VERBS={GUEST}
             chroot $root /usr/bin/valgrind.bin --leak-check=full --errors-for-leak-kinds=definite \
                 --show-leak-kinds=definite --error-exitcode=97 --num-callers=30 \
                 /tmp/verbs --test-threads=1 --nocapture {arguments}; status=$?
             umount $root/dev $root/proc $root/sys $root/tmp; exit $status"
        ),
        Duration::from_secs(size(400, 1200)),
    );
    let passed = output.contains("test result: ok") && !output.contains("not run");
    assert!(status == 0 && passed && output.contains("ERROR SUMMARY: 0 errors"), "{status}: {output}");
    for filter in filters {
        let is_match = |line: &str| line.starts_with("test ") && line.contains(filter);
        assert!(output.lines().any(is_match), "no test matches {filter}: {output}");
    }
}

#[test]
fn valgrind_finds_no_errors_over_siw() {
    valgrind_finds_no_errors(Device::Siw);
}

#[test]
fn valgrind_finds_no_errors_over_rxe() {
    if long() {
        valgrind_finds_no_errors(Device::Rxe);
    }
}
