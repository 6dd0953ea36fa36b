//! Runs the short examples and the tour, and checks their output.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
use rpcrdma_nfs3::{Create3Args, Create3Res, Createhow3, Createmode3, Diropargs3, NfsFh3, Sattr3, nfs_v3};
use rpcrdma_runtime::{Client, Server};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn hello_prints_the_granted_sizes() {
    let output = run(env!("CARGO_BIN_EXE_hello"), &[]);
    assert!(output.status.success(), "{output:?}");
    let expected =
        "requested calls of 65536 bytes, granted 4096\nrequested 64 outstanding Reads, granted 16\n";
    assert_eq!(text(&output.stdout), expected);
}

/// The directory has more entries than fit in one reply.
#[tokio::test(flavor = "multi_thread")]
async fn ls_prints_every_name_once() {
    let export = Arc::new(MemoryExport::default());
    let server = Server::bind("127.0.0.1:0")
        .await
        .unwrap()
        .service(nfs_v3::Server(NfsHandler::new(export.clone())))
        .service(mount_v3::Server(MountHandler::new(export)));
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(address).await.unwrap();
    let mounted = mount_v3::Client(client.clone()).mnt(&"/".into()).await.unwrap();
    let rpcrdma_mount3::Mountres3::Mnt3Ok(mounted) = mounted else { panic!("{mounted:?}") };
    let dir = NfsFh3 { data: mounted.fhandle };
    let mut expected: Vec<String> = (0..2_000).map(|number| format!("entry-{number:04}")).collect();
    for name in &expected {
        let how = Createhow3::ObjAttributes(Createmode3::Guarded, Sattr3::default());
        let place = Diropargs3 { dir, name: name.as_str().into() };
        let made = nfs_v3::Client(client.clone()).create(&Create3Args { r#where: place, how }).await.unwrap();
        assert!(matches!(made, Create3Res::Nfs3Ok(_)), "{made:?}");
    }

    let output = run(env!("CARGO_BIN_EXE_ls"), &[&address.to_string()]);
    assert!(output.status.success(), "{output:?}");
    let mut names: Vec<&str> = text(&output.stdout).lines().collect();
    names.sort_unstable();
    expected.extend([".", ".."].map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(names, expected);

    let refused = run(env!("CARGO_BIN_EXE_ls"), &[&address.to_string(), "/nowhere"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("cannot mount /nowhere"), "{refused:?}");
}

#[test]
fn compile_prints_rust_or_the_location_of_an_error() {
    let specs = concat!(env!("CARGO_MANIFEST_DIR"), "/../specs");
    let (document, binding) = (format!("{specs}/rdma-conf.txt"), format!("{specs}/rdma-conf.ddp.toml"));
    let output = run(env!("CARGO_BIN_EXE_compile"), &[&document, &binding]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(text(&output.stdout).contains("pub struct ConfigRdmaReq {"));

    let wrong = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong.x");
    std::fs::write(&wrong, "struct point { int x; innt y; };\n").unwrap();
    let output = run(env!("CARGO_BIN_EXE_compile"), &[wrong.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    assert!(text(&output.stderr).contains("wrong.x:1:23"), "{}", text(&output.stderr));
}

#[test]
fn the_tour_passes() {
    let output = run(env!("CARGO_BIN_EXE_tour"), &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).ends_with("\nall checks passed\n"));
}
