//! Runs file system tests in the guest, on a mount of `nfs3d`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::guest::{Guest, Random, Siw, guest, guest_with_suites, size};
use crate::mounted::{Transport, clear, mount_ours, mount_path, transport};
use crate::place::{GUEST, inside};
use crate::served::Served;

/// Shell definitions for running Debian programs that are not part of the guest.
pub(crate) const DEBIAN: &str = "at=/host/suites/root; \
    libraries=$at/usr/lib/x86_64-linux-gnu:$at/lib/x86_64-linux-gnu:$at/usr/lib/x86_64-linux-gnu/ceph; \
    debian() { program=$1; shift; LD_LIBRARY_PATH=$libraries $at/usr/bin/$program \"$@\"; }; ";

/// Mounts an empty directory, runs a script in a subdirectory, and unmounts. Fails if the script fails, if
/// the client reconnected or received an invalid reply, or if remote invalidation was not used. Returns the
/// client's counters.
fn on_a_mount(guest: &Guest, limit: u64, script: &str) -> Transport {
    clear(guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    mount_ours(guest, served.rdma, served.tcp);
    let (status, printed) = guest.try_run(
        &format!("{DEBIAN} mkdir /mnt/x && cd /mnt/x && {{ {script}\n}}"),
        Duration::from_secs(limit),
    );
    assert_eq!(status, 0, "{printed}");
    eprintln!("{printed}");
    let counters = transport(guest);
    guest.run("rm -r /mnt/x && [ -z \"$(ls -A /mnt)\" ] && umount /mnt && ! grep -q ' /mnt ' /proc/mounts");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!((counters.connects, counters.bad_xids, counters.bad_replies), (1, 0, 0), "{counters:?}");
    // The server counts its remote invalidations. The client counts the regions that it invalidated itself.
    let output = served.stop();
    assert!(output.contains(" remote invalidations"), "{output}");
    assert!(
        counters.invalidated_locally < counters.chunks(),
        "remote invalidation is not in use: {counters:?}"
    );
    counters
}

/// Requirement: R286
#[test]
fn blocks_are_written_and_read_with_and_without_the_clients_cache() {
    let Some(guest) = guest(Siw::Stock) else { return };
    let counters = on_a_mount(
        &guest,
        300,
        &format!(
            "set -e; head -c {} /dev/urandom >/tmp/file
             dd if=/tmp/file of=cached bs=1M conv=fsync; dd if=/tmp/file of=direct bs=256k oflag=direct
             dd if=/tmp/file of=small bs=4095 conv=fsync; dd if=/tmp/file of=small bs=511 count=100 seek=77 conv=notrunc,fsync
             echo 3 >/proc/sys/vm/drop_caches
             cmp /tmp/file cached; cmp /tmp/file direct
             dd if=direct iflag=direct bs=1M | cmp - /tmp/file
             cp /tmp/file /tmp/small; dd if=/tmp/file of=/tmp/small bs=511 count=100 seek=77 conv=notrunc; cmp /tmp/small small",
            size(16 << 20, 128 << 20)
        ),
    );
    assert!(counters.read_chunks > 16 && counters.write_chunks > 16, "{counters:?}");
}

#[test]
fn thousands_of_files_are_copied_and_are_the_same() {
    let Some(guest) = guest(Siw::Stock) else { return };
    // In the guest, our server is slower than on the host, so the short test copies fewer directories there.
    let dirs = size(if inside().is_some() { 6 } else { 10 }, 50);
    on_a_mount(
        &guest,
        1500,
        &format!(
            "set -e; mkdir /tmp/tree; cd /tmp/tree
             for dir in $(seq {dirs}); do mkdir dir$dir; for file in $(seq 100); do echo $dir $file >dir$dir/file$file; done; done
             for dir in $(seq {dirs}); do head -c $((dir * 7919)) /dev/urandom >dir$dir/file7; done
             ln -s ../dir2/file3 dir1/link; chmod 4711 dir4/file5; touch -d '1999-12-31 23:59:58' dir6/file7
             [ $(find . -type f | wc -l) = {dirs}00 ]
             cp -a /tmp/tree /mnt/x/tree; sync; echo 3 >/proc/sys/vm/drop_caches
             [ $(find /mnt/x/tree -type f | wc -l) = {dirs}00 ]
             rsync -aHi --checksum --delete /tmp/tree/ /mnt/x/tree/ >/tmp/different
             cat /tmp/different; [ ! -s /tmp/different ]"
        ),
    );
}

#[test]
fn fsx_finds_no_wrong_byte() {
    let Some(guest) = guest_with_suites(Siw::Stock) else { return };
    let seed = Random::new().next() >> 32;
    eprintln!("fsx -S {seed}");
    on_a_mount(
        &guest,
        900,
        &format!(
            "/host/suites/bin/fsx -N 10000 -S {seed} -P /tmp /mnt/x/file >/tmp/output 2>&1; \
             status=$?; tail -n 5 /tmp/output; [ $status = 0 ]"
        ),
    );
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(guest) = guest_with_suites(Siw::Stock) else { return };
    on_a_mount(
        &guest,
        900,
        &format!(
            "for bs in 4k 30k 300k; do \
                 debian fio --name=v --directory=/mnt/x --size={}m --bs=$bs --rw=randrw --verify=crc32c \
                     --verify_fatal=1 --ioengine=psync --numjobs=2 --group_reporting || exit 1; \
             done; debian fio --name=d --directory=/mnt/x --size=4m --bs=64k --rw=randwrite --direct=1 --verify=crc32c \
             --verify_fatal=1 --ioengine=psync --group_reporting",
            size(3, 24)
        ),
    );
}

#[test]
fn dbench_succeeds() {
    let Some(guest) = guest_with_suites(Siw::Stock) else { return };
    on_a_mount(
        &guest,
        600,
        &format!(
            "debian dbench -c /host/suites/root/usr/share/dbench/client.txt -t {} -D /mnt/x 2 >/tmp/output 2>&1; \
             status=$?; tail -n 12 /tmp/output; [ $status = 0 ]",
            size(8, 60)
        ),
    );
}

struct Results {
    ok: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// Runs pjdfstest at /mnt, including its optional tests of file times.
fn pjdfstest(guest: &Guest) -> Results {
    let (status, printed) = guest.try_run(
        "mkdir -m 755 /mnt/pjd; cat >/tmp/pjd.toml <<'end'\n\
         [features]\nutimensat = {}\nutime_now = {}\nrename_ctime = {}\n\
         [settings]\nnaptime = 0.05\n[dummy_auth]\n\
         entries = [ [\"nobody\", \"nogroup\"], [\"user\", \"user\"], [\"_rpc\", \"nogroup\"] ]\nend\n\
         /host/suites/bin/pjdfstest -c /tmp/pjd.toml -p /mnt/pjd 2>&1; echo \"exit $?\"; rm -rf /mnt/pjd",
        Duration::from_secs(900),
    );
    // pjdfstest prints the summary only when it runs to completion.
    assert!(status == 0 && printed.contains("Summary"), "pjdfstest did not finish: {status}: {printed}");
    // Each test prints one line: its name, and ok, skipped or FAILED.
    let with_result = |how: &str| {
        let lines = printed.lines().filter_map(|line| line.split_once(char::is_whitespace));
        let those = lines.filter(|(_, result)| result.trim() == how);
        those.map(|(name, _)| name.to_owned()).collect::<BTreeSet<String>>()
    };
    Results { ok: with_result("ok"), failed: with_result("FAILED") }
}

#[test]
fn pjdfstest_finds_no_difference_from_the_kernels_server() {
    let Some(mut guest) = guest_with_suites(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    mount_ours(&guest, served.rdma, served.tcp);
    let ours = pjdfstest(&guest);
    guest.run("umount /mnt");
    guest.serve();
    mount_path(&guest, &format!("{GUEST}:/export"), 20049, 20048);
    let kernels = pjdfstest(&guest);
    guest.run("umount /mnt");
    let (passed, passed_there) = (ours.ok.len(), kernels.ok.len());
    eprintln!("{passed} passed with nfs3d, {passed_there} with knfsd; knfsd fails {:?}", kernels.failed);
    assert!(passed > 300 && passed_there > 300, "{passed} passed with nfs3d, {passed_there} with knfsd");
    let more: Vec<_> = ours.failed.difference(&kernels.failed).collect();
    assert!(more.is_empty(), "{} fail with nfs3d only: {more:#?}", more.len());
    // The next check also detects tests that pass with knfsd but are skipped or missing with nfs3d.
    let fewer: Vec<_> = kernels.ok.difference(&ours.ok).collect();
    assert!(fewer.is_empty(), "{} pass with knfsd only: {fewer:#?}", fewer.len());
}
