//! The kernel's NFS client, mounting what `nfs3d` serves on this machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::guest::{Guest, Siw, guest};

/// `nfs3d`, and where it listens.
struct Served {
    child: Child,
    rdma: u16,
    tcp: u16,
}

impl Served {
    fn start(dir: &Path) -> Self {
        Served::start_at(dir, 0, 0)
    }

    fn start_at(dir: &Path, rdma: u16, tcp: u16) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
            .arg(dir)
            .args(["--listen", &format!("127.0.0.1:{rdma}"), "--tcp", &format!("127.0.0.1:{tcp}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = |scheme: &str| {
            let (_, rest) = line.split_once(scheme).unwrap();
            rest.split('/').next().unwrap().rsplit(':').next().unwrap().parse().unwrap()
        };
        Served { rdma: port("rdma://"), tcp: port("tcp://"), child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Has the guest mount it at /mnt; 10.0.2.2 is the loopback of this machine there.
    fn mount(&self, guest: &Guest) {
        let Served { rdma, tcp, .. } = self;
        guest.run(&format!(
            "modprobe -a rpcrdma nfs nfsv3; mount -t nfs \
             -o vers=3,proto=rdma,port={rdma},nolock,mountproto=tcp,mountport={tcp} 10.0.2.2:/ /mnt && \
             grep ' /mnt nfs .*proto=rdma' /proc/mounts"
        ));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Unmounts whatever a test that failed has left.
fn clear(guest: &Guest) {
    guest.run("! grep -q ' /mnt nfs' /proc/mounts || umount -f -l /mnt; rm -rf /tmp/tree /tmp/sums");
}

/// Files of all sizes up to some hundred KiB and one of 5 MiB, links, a pipe, and modes.
const TREE: &str = "set -e; mkdir -p /tmp/tree/a/b /tmp/tree/c; cd /tmp/tree; \
    for i in $(seq 1 120); do head -c $((i * i * 17 + i)) /dev/urandom >a/file$i; echo $i >c/number$i; done; \
    head -c 5242881 /dev/urandom >large; ln -s ../c/number1 a/b/symlink; ln a/file7 a/b/hard; mkfifo pipe; \
    chmod 400 a/file8; chmod 4755 a/file9; touch -d '2001-02-03 04:05:06' a/file10; chown 1000:1000 c; \
    find . -type f | sort | xargs sha256sum >/tmp/sums";

/// The first line of statistics that the kernel keeps of the mount's transport, as numbers.
fn transport(guest: &Guest) -> Vec<u64> {
    let line =
        guest.run("awk '/ mounted on \\/mnt / {at = 1} at && /xprt:/ {print; exit}' /proc/self/mountstats");
    assert!(line.contains("rdma"), "{line}");
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_tree_is_copied_and_renamed_and_removed() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    served.mount(&guest);
    guest.run(TREE);
    guest.run("cp -a /tmp/tree /mnt/tree && sync && echo 3 >/proc/sys/vm/drop_caches");
    guest.run("cd /mnt/tree && sha256sum --quiet -c /tmp/sums");
    // Modes, owners, times, links and contents, in one list of what is different: none.
    let different = guest.run("rsync -aHn --checksum --itemize-changes --delete /tmp/tree/ /mnt/tree/");
    assert_eq!(different.trim(), "");
    let sums = guest.run("cat /tmp/sums");
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let here = Command::new("sha256sum").arg(dir.path().join("tree").join(name)).output().unwrap();
        assert!(String::from_utf8_lossy(&here.stdout).starts_with(sum), "{name} in the directory");
    }
    guest.run(
        "mv /mnt/tree /mnt/renamed && mv /mnt/renamed/a/file3 /mnt/renamed/c/moved && cd /mnt/renamed && \
               grep -v a/file3 /tmp/sums | sha256sum --quiet -c && ls c | grep -c . | grep -qx 121",
    );
    let counters = transport(&guest);
    guest.run("rm -r /mnt/renamed && [ -z \"$(ls -A /mnt)\" ] && umount /mnt");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // port bind connect connect_time idle sends recvs bad_xids req_u bklog_u, then read_chunks write_chunks
    // reply_chunks and eight more, then mrs_recycled orphaned allocated local_inv_needed.
    let [_, _, connects, _, _, sends, receives, bad] = counters[..8] else { panic!("{counters:?}") };
    assert_eq!((connects, bad), (1, 0), "{counters:?}");
    assert_eq!(sends, receives, "{counters:?}");
    let bad_replies = counters[19];
    assert_eq!(bad_replies, 0, "{counters:?}");
    let chunks = counters[10] + counters[11] + counters[12];
    let invalidated_locally = counters[24];
    assert!(invalidated_locally < chunks, "remote invalidation is in use: {counters:?}");
}

#[test]
fn a_write_survives_a_server_that_is_killed() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let dir = tempfile::tempdir().unwrap();
    let mut served = Served::start(dir.path());
    served.mount(&guest);
    guest.run("mkdir /mnt/below; head -c 33554433 /dev/urandom >/tmp/tree");
    guest.run(
        "(dd if=/tmp/tree of=/mnt/below/file bs=256k conv=fsync; echo $? >/run/written) >/run/dd 2>&1 &",
    );
    let file = dir.path().join("below/file");
    while std::fs::metadata(&file).map_or(0, |of| of.len()) < 1 << 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    served.kill();
    let half = std::fs::metadata(&file).unwrap().len();
    let served = Served::start_at(dir.path(), served.rdma, served.tcp);
    guest.run("until [ -e /run/written ]; do sleep 1; done; cat /run/dd; grep -qx 0 /run/written");
    let there = guest.run("sha256sum </tmp/tree");
    let here = Command::new("sha256sum").stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&here.stdout).trim(), there.trim(), "killed after {half} bytes");
    let connects = transport(&guest)[2];
    assert!(connects > 1, "it was connected {connects} times");
    guest.run("echo 3 >/proc/sys/vm/drop_caches; cmp /tmp/tree /mnt/below/file && umount /mnt && rm /tmp/tree /run/written");
    drop(served);
}
