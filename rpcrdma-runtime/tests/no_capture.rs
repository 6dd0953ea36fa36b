//! A build without the feature `capture` warns if a capture is requested.
#![cfg(not(feature = "capture"))]

use std::env;
use std::process::Command;

use rpcrdma_runtime::Server;

/// A test cannot safely change its own environment, so this test runs itself in another process.
#[tokio::test]
async fn a_requested_capture_causes_one_warning() {
    if env::var_os("RPCRDMA_PCAP").is_some() {
        tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
        for _ in 0..2 {
            Server::bind("127.0.0.1:0").await.unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "a_requested_capture_causes_one_warning"]);
    let output = command.env("RPCRDMA_PCAP", &path).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr.matches("RPCRDMA_PCAP is ignored").count(), 1, "{stderr}");
    assert!(!path.exists());
}
