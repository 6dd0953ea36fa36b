//! fio verifies the data that it writes to a mount while connections are cut at random.

use std::time::Duration;

use crate::guest::{Siw, guest_with_suites, size};
use crate::mounted::{Cut, clear, mount_ours, run_with_cuts, transport};
use crate::relay::Relay;
use crate::served::Served;
use crate::suites::DEBIAN;

/// Returns a script that repeats fio for at least `seconds` seconds.
///
/// All blocks of a round have the same size. With mixed sizes, fio 3.33 sometimes reports verification errors
/// on any file system.
fn rounds(seconds: u64) -> String {
    format!(
        "{DEBIAN} end=$((SECONDS + {seconds})); round=0; sizes=(64k 13k 199k 4k 30k)
         while [ $SECONDS -lt $end ]; do
             round=$((round + 1))
             debian fio --name=v --directory=/mnt --size=2m --bs=${{sizes[round / 2 % 5]}} --rw=randrw --direct=$((round % 2)) \\
                 --verify=crc32c --verify_fatal=1 --ioengine=psync --numjobs=2 --randseed=$round --end_fsync=1 || exit 1
             rm /mnt/v.*
         done; echo $round rounds"
    )
}

#[test]
fn fio_finds_no_wrong_byte_while_connections_are_cut() {
    let Some(guest) = guest_with_suites(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let relay = Relay::to(served.rdma);
    mount_ours(&guest, relay.port, served.tcp);
    let seconds = size(30, 300);
    let Cut { cuts, output } = run_with_cuts(&guest, &relay, &rounds(seconds), Duration::from_secs(seconds));
    let counters = transport(&guest);
    eprintln!("{cuts} cuts, {}", output.lines().last().unwrap_or_default());
    let enough = seconds / 10;
    assert!(u64::from(cuts) >= enough && counters.connects > enough, "{cuts} cuts, {counters:?}");
    guest.run("umount /mnt");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
