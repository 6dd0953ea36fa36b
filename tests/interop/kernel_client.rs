//! Tests the kernel's NFS client on a mount of `nfs3d`.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rpcrdma_runtime::wire::iwarp::{ReadDepths, mpa};

use crate::guest::{Siw, guest};
use crate::mounted::{Cut, clear, mount_ours, run_with_cuts, transport};
use crate::relay::Relay;
use crate::served::Served;

/// A script that creates files, links and a pipe, some with unusual modes, owners or times.
const TREE: &str = "set -e; mkdir -p /tmp/tree/a/b /tmp/tree/c; cd /tmp/tree; \
    for i in $(seq 1 120); do head -c $((i * i * 17 + i)) /dev/urandom >a/file$i; echo $i >c/number$i; done; \
    head -c 5242881 /dev/urandom >large; ln -s ../c/number1 a/b/symlink; ln a/file7 a/b/hard; mkfifo pipe; \
    chmod 400 a/file8; chmod 4755 a/file9; touch -d '2001-02-03 04:05:06' a/file10; chown 1000:1000 c; \
    find . -type f | sort | xargs sha256sum >/tmp/sums";

#[test]
fn a_tree_is_copied_and_renamed_and_removed() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    mount_ours(&guest, served.rdma, served.tcp);
    guest.run(TREE);
    guest.run("cp -a /tmp/tree /mnt/tree && sync && echo 3 >/proc/sys/vm/drop_caches");
    guest.run("cd /mnt/tree && sha256sum --quiet -c /tmp/sums");
    // rsync lists the differences in modes, owners, times, links and contents.
    let different = guest.run("rsync -aHn --checksum --itemize-changes --delete /tmp/tree/ /mnt/tree/");
    assert_eq!(different.trim(), "");
    let sums = guest.run("cat /tmp/sums");
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let here = Command::new("sha256sum").arg(dir.path().join("tree").join(name)).output().unwrap();
        assert!(
            String::from_utf8_lossy(&here.stdout).starts_with(sum),
            "{name}: wrong contents in the served directory"
        );
    }
    guest.run(
        "mv /mnt/tree /mnt/renamed && mv /mnt/renamed/a/file3 /mnt/renamed/c/moved && cd /mnt/renamed && \
               grep -v a/file3$ /tmp/sums | sha256sum --quiet -c && ls c | grep -c . | grep -qx 121",
    );
    let counters = transport(&guest);
    guest.run("rm -r /mnt/renamed && [ -z \"$(ls -A /mnt)\" ] && umount /mnt");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!((counters.connects, counters.bad_xids), (1, 0), "{counters:?}");
    assert_eq!(counters.sends, counters.receives, "{counters:?}");
    assert_eq!(counters.bad_replies, 0, "{counters:?}");
    assert!(
        counters.invalidated_locally < counters.chunks(),
        "remote invalidation is not in use: {counters:?}"
    );
}

#[test]
fn a_write_survives_a_server_that_is_killed() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let mut served = Served::start(dir.path());
    mount_ours(&guest, served.rdma, served.tcp);
    guest.run("mkdir /mnt/below; head -c 33554433 /dev/urandom >/tmp/tree");
    guest.run(
        "rm -f /run/written; (dd if=/tmp/tree of=/mnt/below/file bs=256k conv=fsync; echo $? >/run/written) >/run/dd 2>&1 &",
    );
    let file = dir.path().join("below/file");
    let began = Instant::now();
    while std::fs::metadata(&file).map_or(0, |of| of.len()) < 1 << 20 {
        let hangs = began.elapsed() > Duration::from_secs(300);
        assert!(!hangs, "less than 1 MiB was written within 300 s: {}", guest.run("cat /run/dd"));
        sleep(Duration::from_millis(20));
    }
    served.kill();
    let half = std::fs::metadata(&file).unwrap().len();
    guest.run("[ ! -e /run/written ]");
    let served = Served::start_at(dir.path(), served.rdma, served.tcp);
    guest.run("until [ -e /run/written ]; do sleep 1; done; cat /run/dd; grep -qx 0 /run/written");
    let there = guest.run("sha256sum </tmp/tree");
    let here = Command::new("sha256sum").stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&here.stdout).trim(), there.trim(), "killed after {half} bytes");
    let connects = transport(&guest).connects;
    assert!(connects > 1, "expected a reconnection, got {connects} connections");
    guest.run("echo 3 >/proc/sys/vm/drop_caches; cmp /tmp/tree /mnt/below/file && umount /mnt && rm /tmp/tree /run/written");
    drop(served);
}

/// siw requests a peer-to-peer connection. Its ready-to-receive message (RFC 6581 section 9.2) is a
/// zero-length RDMA Write.
///
/// Requirement: R373
#[test]
fn a_connection_between_peers_is_granted() {
    let Some(guest) = guest(Siw::Peers) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    // The bytes in each direction. Index 1 is the direction to the server.
    let handshakes = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let kept = handshakes.clone();
    let watch =
        move |to_server: bool, bytes: &[u8]| kept.lock().unwrap()[usize::from(to_server)].extend(bytes);
    let relay = Relay::watched(served.rdma, Arc::new(Mutex::new(watch)));
    mount_ours(&guest, relay.port, served.tcp);
    guest.run("head -c 300001 /dev/urandom >/tmp/file; cp /tmp/file /mnt/; sync; echo 3 >/proc/sys/vm/drop_caches; cmp /tmp/file /mnt/file");
    let counters = transport(&guest);
    guest.run("rm /mnt/file && umount /mnt");
    assert_eq!((counters.connects, counters.bad_xids, counters.bad_replies), (1, 0, 0), "{counters:?}");
    let handshakes = handshakes.lock().unwrap();
    let [granted, requested] = [0, 1]
        .map(|direction| ReadDepths::split(handshakes[direction].get(mpa::HEADER_LEN..).unwrap()).unwrap().0);
    assert!(requested.peer_to_peer && granted.peer_to_peer, "{requested:?}, {granted:?}");
    assert!(requested.rtr_write && granted.rtr_write && !granted.rtr_read, "{requested:?}, {granted:?}");
}

/// A script that creates, compares and removes files for a minute, and fails at the first error.
const WORK: &str = "set -e; cd /mnt; end=$((SECONDS + 60)); round=0
    while [ $SECONDS -lt $end ]; do
        round=$((round + 1)); mkdir dir$round
        for file in 1 2 3; do
            head -c $((RANDOM * 31 + 1)) /dev/urandom >/tmp/part
            cp /tmp/part dir$round/part$file; mv dir$round/part$file dir$round/file$file
            sync; echo 2 >/proc/sys/vm/drop_caches; echo 1 >/proc/sys/vm/drop_caches
            cmp /tmp/part dir$round/file$file; ln dir$round/file$file dir$round/link$file
        done
        rm dir$round/*; rmdir dir$round
    done; echo $round rounds";

#[test]
fn cut_connections_lose_and_repeat_no_call() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let relay = Relay::to(served.rdma);
    mount_ours(&guest, relay.port, served.tcp);
    // Cut connections until the script ends.
    let Cut { cuts, .. } = run_with_cuts(&guest, &relay, WORK, Duration::MAX);
    let counters = transport(&guest);
    assert!(cuts > 3 && counters.connects > 3, "{cuts} cuts, {counters:?}");
    guest.run("umount /mnt");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
