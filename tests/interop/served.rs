//! `nfs3d`, as a program of this machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `nfs3d`, and where it listens.
pub(crate) struct Served {
    child: Child,
    pub(crate) rdma: u16,
    pub(crate) tcp: u16,
}

impl Served {
    pub(crate) fn start(dir: &Path) -> Self {
        Served::start_at(dir, 0, 0)
    }

    pub(crate) fn start_at(dir: &Path, rdma: u16, tcp: u16) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
            .arg(dir)
            .args(["--listen", &format!("127.0.0.1:{rdma}"), "--tcp", &format!("127.0.0.1:{tcp}")])
            .arg("--no-root-squash") // the guest has root only
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

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
