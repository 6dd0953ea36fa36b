//! Uses Wireshark and `rpcrdma explain` to check captures of connections: our client with the kernel's
//! server, the kernel's client with our server, and the kernel's client with the kernel's server.

use std::fs::File;
use std::path::Path;

use rpcrdma_nfs::client::Remote;
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_runtime::provider::iwarp::{Capture, CaptureFile};
use rpcrdma_tools::explain::{Conversation, Peer, Trace, read};

use crate::guest::{Random, Siw, guest, server};
use crate::kernel_server::{connect, get, options, put, root};
use crate::mounted::{clear, mount_ours, mount_path};
use crate::place::guest_view;
use crate::procedures::every_procedure;
use crate::recorded::{Recording, check_every_frame};
use crate::relay::Relay;
use crate::served::Served;
use crate::wireshark;

fn read_complete(path: &Path) -> Trace {
    let trace = read(File::open(path).unwrap()).unwrap();
    assert!(trace.remarks.is_empty(), "{:?}", trace.remarks);
    for connection in &trace.connections {
        assert!(connection.is_iwarp && connection.lost == 0);
        let notes = &connection.conversation.notes;
        assert!(notes.iter().all(|note| !note.problem || note.text.contains("resets")), "{notes:?}");
    }
    trace
}

/// Checks that each call has a reply and a known procedure, and that each RDMA operation belongs to a chunk
/// and is complete. Returns the number of octets moved by RDMA Reads and the number moved by RDMA Writes.
fn moved(conversation: &Conversation) -> (u64, u64) {
    let mut sums = (0, 0);
    for call in &conversation.calls {
        assert!(call.reply.is_some() && call.procedure.is_some(), "{call:?}");
        assert!(call.operations.iter().all(|one| one.chunk.is_some() && one.done.is_some()), "{call:?}");
        let (read, written) = call.rdma_bytes();
        sums = (sums.0 + read, sums.1 + written);
    }
    sums
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_and_the_kernels_server() {
    let Some(guest) = server(Siw::Fixed) else { return };
    let dir = tempfile::tempdir().unwrap();
    for crc in [true, false] {
        let path = dir.path().join(format!("crc-{crc}.pcap"));
        let mut options = options(crc);
        options.iwarp.capture = Capture::File(CaptureFile::create(&path).unwrap());
        let client = connect(&guest, options).await;
        let nfs = nfs_v3::Client(client.clone().into());
        let root = root(&guest).await;
        every_procedure(&nfs, root, &format!("captured-{crc}")).await;
        let remote = Remote::of(client.clone(), root).await.unwrap();
        let sent = put(&remote, "captured", &Random::new().bytes(300_001)).await;
        assert_eq!(get(&remote, "/captured").await, sent);
        guest.run("rm /export/captured");
        client.drain().await;
        let trace = read_complete(&path);
        let conversation = &trace.connections[0].conversation;
        assert_eq!((trace.connections.len(), conversation.crc), (1, Some(crc)));
        let (read, written) = moved(conversation);
        assert!(read >= 300_001 && written >= 300_001, "{read} octets by RDMA Read, {written} by RDMA Write");
        check_every_frame(&path);
        if wireshark::is_available() {
            wireshark::agrees(&path, &[("nfs", conversation.calls.len())]);
        }
    }
}

const WORK: &str = "head -c 300001 /dev/urandom >/mnt/one && cp /mnt/one /mnt/two && echo 3 >/proc/sys/vm/drop_caches && \
    cmp /mnt/one /mnt/two && ls -l /mnt && mv /mnt/one /mnt/three && rm /mnt/two /mnt/three && umount /mnt";

fn check_kernel_work(capture: &Path) {
    let trace = read_complete(capture);
    let conversations = trace.connections.iter().map(|connection| &connection.conversation);
    let (read, written) = conversations.clone().map(moved).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    assert!(read >= 600_002 && written >= 600_002, "{read} octets by RDMA Read, {written} by RDMA Write");
    let calls: Vec<_> = conversations.flat_map(|conversation| &conversation.calls).collect();
    assert!(calls.iter().all(|call| call.by == Some(Peer::Client)));
    for procedure in ["LOOKUP", "CREATE", "WRITE", "READ", "READDIRPLUS", "RENAME", "REMOVE"] {
        let named = calls.iter().filter(|call| call.procedure.unwrap().procedure_name() == procedure);
        assert!(named.count() > 0, "{procedure}");
    }
    check_every_frame(capture);
    if wireshark::is_available() {
        wireshark::agrees(capture, &[("nfs", calls.len())]);
    }
}

#[test]
fn the_kernels_client_and_our_server() {
    let Some(guest) = guest(Siw::Stock) else { return };
    clear(&guest);
    let (files, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = work.path().join("a.pcap");
    let served = Served::captured(files.path(), &path);
    mount_ours(&guest, served.rdma, served.tcp);
    guest.run(WORK);
    drop(served);
    check_kernel_work(&path);
}

/// A relay on this machine records the traffic between the two kernel implementations.
#[test]
fn the_kernels_client_and_the_kernels_server() {
    let Some(guest) = server(Siw::Fixed) else { return };
    clear(&guest);
    let recording = Recording::begin();
    let relay = Relay::watched(guest.ports().nfs_rdma, Recording::watch(&recording));
    mount_path(&guest, &format!("{}:/export", guest_view()), relay.port, guest.ports().mount);
    guest.run(WORK);
    relay.cut();
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("a.pcap");
    std::fs::write(&path, recording.lock().unwrap().end()).unwrap();
    check_kernel_work(&path);
}
