//! NFS mounts in the guest at /mnt, and their counters in the kernel's client.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::guest::{Guest, Random};
use crate::place::guest_view;
use crate::relay::Relay;

/// Mounts the root directory of our server at /mnt. The server listens on the ports `rdma` and `tcp` of the
/// machine where this program runs.
pub(crate) fn mount_ours(guest: &Guest, rdma: u16, tcp: u16) {
    mount(guest, guest_view(), rdma, tcp);
}

pub(crate) fn mount(guest: &Guest, server: &str, rdma: u16, tcp: u16) {
    mount_path(guest, &format!("{server}:/"), rdma, tcp);
}

pub(crate) fn mount_path(guest: &Guest, source: &str, rdma: u16, tcp: u16) {
    guest.run(&format!(
        "modprobe -a rpcrdma nfs nfsv3; mount -t nfs \
         -o vers=3,proto=rdma,port={rdma},nolock,mountproto=tcp,mountport={tcp} {source} /mnt && \
         grep ' /mnt nfs .*proto=rdma' /proc/mounts"
    ));
}

/// Cleans up after a failed test: unmounts /mnt, deletes the files in /tmp and /export, and kills `nfs3d`.
pub(crate) fn clear(guest: &Guest) {
    guest.run(
        "! grep -q ' /mnt nfs' /proc/mounts || umount -f -l /mnt; \
         rm -rf /tmp/* /export/*; ! pidof nfs3d || kill -KILL $(pidof nfs3d)",
    );
}

pub(crate) struct Cut {
    pub(crate) cuts: u32,
    pub(crate) output: String,
}

/// Runs a script in the guest, and cuts the relay's connections every few seconds. The script must succeed.
///
/// After `time`, connections are no longer cut, and the script must finish within ten more minutes.
pub(crate) fn run_with_cuts(guest: &Guest, relay: &Relay, script: &str, time: Duration) -> Cut {
    let mut random = Random::new();
    guest.run(&format!("cat >/run/work <<'end of work'\n{script}\nend of work"));
    guest
        .run("rm -f /run/worked; (bash /run/work >/run/output 2>&1; echo $? >/run/worked) >/dev/null 2>&1 &");
    let (began, mut cuts) = (Instant::now(), 0);
    while guest.run("[ ! -e /run/worked ] || echo done").trim() != "done" {
        sleep(Duration::from_millis(1000 + random.next() % 4000));
        if began.elapsed() < time {
            cuts += u32::from(relay.cut());
        }
        let hangs = began.elapsed() > time.saturating_add(Duration::from_secs(600));
        assert!(
            !hangs,
            "the script is still running {} s after its start, with {cuts} cuts: {}",
            began.elapsed().as_secs(),
            guest.run("tail -n 20 /run/output; cat /proc/*/stack | tail -n 60")
        );
    }
    let output = guest.run("tail -n 40 /run/output");
    assert_eq!(guest.run("cat /run/worked").trim(), "0", "{cuts} cuts: {output}");
    Cut { cuts, output }
}

#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) connects: u64,
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    pub(crate) bad_xids: u64,
    pub(crate) read_chunks: u64,
    pub(crate) write_chunks: u64,
    pub(crate) reply_chunks: u64,
    pub(crate) bad_replies: u64,
    pub(crate) invalidated_locally: u64,
}

impl Transport {
    pub(crate) fn chunks(&self) -> u64 {
        self.read_chunks + self.write_chunks + self.reply_chunks
    }
}

pub(crate) fn transport(guest: &Guest) -> Transport {
    let line =
        guest.run("awk '/ mounted on \\/mnt / {at = 1} at && /xprt:/ {print; exit}' /proc/self/mountstats");
    assert!(line.contains("rdma"), "{line}");
    // The fields are: port bind connect connect_time idle sends recvs bad_xids req_u bklog_u read_chunks
    // write_chunks reply_chunks rdma_request_bytes rdma_reply_bytes pullup_copy fixup_copy hardway_register
    // failed_marshal bad_reply nomsg_calls mrs_recycled orphaned allocated local_inv_needed, and two more.
    let counters: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Transport {
        connects: counters[2],
        sends: counters[5],
        receives: counters[6],
        bad_xids: counters[7],
        read_chunks: counters[10],
        write_chunks: counters[11],
        reply_chunks: counters[12],
        bad_replies: counters[19],
        invalidated_locally: counters[24],
    }
}
