//! Repeats tests of our client with our server instead of the kernel's server. These tests need no guest.

use std::fs;

use rpcrdma_nfs::client::Remote;
use rpcrdma_nfs3::NfsFh3;

use crate::guest::Random;
use crate::kernel_server::{connect_to, connections_to, get, in_flight, options, put};
use crate::procedures::every_procedure;
use crate::served::Served;

/// Returns the file handle of the root directory. Unlike the kernel's server, `nfs3d` offers MOUNT over RDMA.
async fn root(served: &Served) -> NfsFh3 {
    let url = format!("rdma://127.0.0.1:{}/", served.rdma).parse().unwrap();
    Remote::mount(&url).await.unwrap().find(b"/").await.unwrap().handle
}

#[tokio::test(flavor = "multi_thread")]
async fn nfs3d_implements_every_procedure_like_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let root = root(&served).await;
    for crc in [true, false] {
        let client = connect_to(served.rdma, options(crc)).await;
        every_procedure(&rpcrdma_nfs3::nfs_v3::Client(client.into()), root, "ours").await;
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_any_size_arrive_at_nfs3d_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let (root, mut random) = (root(&served).await, Random::new());
    let mut sizes = vec![0, 1, 4095, 4097, 1_048_575, 1_048_577, 64 << 20];
    sizes.extend((0..5).map(|_| random.length(8 << 20)));
    for (index, size) in sizes.into_iter().enumerate() {
        let crc = index % 2 == 0;
        let remote = Remote::of(connect_to(served.rdma, options(crc)).await, root).await.unwrap();
        let data = random.bytes(size);
        let sent = put(&remote, "file", &data).await;
        assert!(fs::read(dir.path().join("file")).unwrap() == data, "{size} bytes");
        let remote = Remote::of(connect_to(served.rdma, options(!crc)).await, root).await.unwrap();
        assert_eq!(get(&remote, "/file").await, sent, "{size} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_and_connections_one_after_another_are_served_by_nfs3d() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let root = root(&served).await;
    for crc in [true, false] {
        let credits = in_flight(served.rdma, root, crc).await.unwrap();
        // The server may reply before this program sends the next call, so `max_in_flight` may be less than
        // 64.
        assert!(credits.max_granted == 64 && credits.max_in_flight > 1, "{credits:?}");
    }
    connections_to(served.rdma, root, 1000).await;
}
