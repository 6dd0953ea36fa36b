//! Runs `nfs3d` on the machine where this program runs.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{address, inside, program, provider};

pub(crate) struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) rdma: u16,
    pub(crate) tcp: u16,
}

/// Returns a command that runs `nfs3d`. The state directory is fixed, so that file handles stay valid after a
/// restart.
fn nfs3d() -> Command {
    let mut command = Command::new(program(env!("CARGO_BIN_EXE_nfs3d")));
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    command.env("XDG_STATE_HOME", if inside().is_some() { std::env::temp_dir() } else { built });
    command
}

impl Served {
    pub(crate) fn start(dir: &Path) -> Self {
        Served::start_at(dir, 0, 0)
    }

    pub(crate) fn start_at(dir: &Path, rdma: u16, tcp: u16) -> Self {
        Served::run(nfs3d().arg(dir), rdma, tcp)
    }

    pub(crate) fn captured(dir: &Path, capture: &Path) -> Self {
        Served::run(nfs3d().arg(dir).env("RPCRDMA_PCAP", capture), 0, 0)
    }

    pub(crate) fn run(command: &mut Command, rdma: u16, tcp: u16) -> Self {
        let ip = address();
        let mut child = command
            .args(["--listen", &format!("{ip}:{rdma}"), "--tcp", &format!("{ip}:{tcp}")])
            .args(["--provider", &provider().to_string()])
            .arg("--no-root-squash") // most tests in the guest run as root
            .arg("--stats")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let port = |scheme: &str| {
            let (_, rest) = line.split_once(scheme).unwrap();
            rest.split('/').next().unwrap().rsplit(':').next().unwrap().parse().unwrap()
        };
        Served { stdout, rdma: port("rdma://"), tcp: port("tcp://"), child }
    }

    /// Stops the server and returns its remaining output, which includes the statistics.
    pub(crate) fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut output = String::new();
        self.stdout.read_to_string(&mut output).unwrap();
        assert!(self.child.wait().unwrap().success() && output.ends_with("stopped\n"), "{output}");
        output
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
