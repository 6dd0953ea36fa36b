//! The same as against the kernel, between our own ends: this runs everywhere.

use rpcrdma_examples::client::Remote;

use crate::procedures::every_procedure;
use crate::served::Served;

#[tokio::test(flavor = "multi_thread")]
async fn nfs3d_does_by_each_procedure_what_the_kernel_does() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path());
    let url = format!("rdma://127.0.0.1:{}/", served.rdma).parse().unwrap();
    let remote = Remote::mount(&url).await.unwrap();
    let root = remote.find(b"/").await.unwrap().handle;
    every_procedure(remote.nfs(), root, "ours").await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
