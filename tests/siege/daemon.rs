//! The attacked `nfs3d` process, its resource use and its metrics.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, io};

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The number of small files, which exceeds the number of files that the server keeps open.
pub(crate) const FILES: usize = 1000;
/// The size of a small file in bytes. Each byte of file `N` is `N % 256`.
pub(crate) const SMALL: usize = 4096;
/// The number of files that the attack on slow storage reads.
pub(crate) const SLOW_FILES: usize = 256;
/// The size of the file `large` in bytes.
const LARGE: u64 = 64 << 20;

/// Sets the soft limit on open files to 1,024, which is usual for services, and limits files to 128 MiB. The
/// unit of `ulimit -f` is 512 bytes.
const WITH_LIMITS: &str = r#"ulimit -S -n 1024; ulimit -f 262144; exec "$@""#;

pub(crate) struct Daemon {
    child: Child,
    pub(crate) rdma: SocketAddr,
    pub(crate) tcp: SocketAddr,
    metrics: SocketAddr,
    /// The number of sockets of the process before the first connection.
    own_sockets: usize,
    folder: TempDir,
}

impl Daemon {
    /// Starts a server that listens on `ip`.
    pub(crate) fn start(ip: IpAddr) -> anyhow::Result<Self> {
        let (program, folder) = (build()?, tempfile::tempdir()?);
        let served = served(&folder);
        fill(&served).context("the served directory")?;
        let mut command = Command::new("sh");
        command.args(["-c", WITH_LIMITS, "sh"]).arg(&program).arg(&served);
        let listen = SocketAddr::new(ip, 0).to_string();
        command.args(["--listen", &listen, "--tcp", &listen]);
        // The server refuses IPv4 addresses from 127.128.0.0 upward.
        command.args(["--allow", "127.0.0.0/9,::1,2001:db8::/32", "--no-root-squash"]);
        command.args(["--metrics", "127.0.0.1:0"]);
        command.arg("--handle-key").arg(folder.path().join("key"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = |scheme| {
            let url = line.split_whitespace().find_map(|word| word.strip_prefix(scheme));
            let address = url.and_then(|url| url.split(['/', ',']).next()?.parse().ok());
            address.with_context(|| format!("no {scheme} in {line:?}"))
        };
        let (rdma, tcp, metrics) = (address("rdma://")?, address("tcp://")?, address("http://")?);
        let mut daemon = Daemon { child, rdma, tcp, metrics, own_sockets: 0, folder };
        daemon.own_sockets = daemon.connections()?;
        Ok(daemon)
    }

    /// Returns the served directory.
    pub(crate) fn served(&self) -> PathBuf {
        served(&self.folder)
    }

    /// Returns the resident memory of the process, and its peak since [`Daemon::reset_peak_rss`], in bytes.
    pub(crate) fn rss_and_peak(&self) -> anyhow::Result<(u64, u64)> {
        let status = fs::read_to_string(self.proc().join("status"))?;
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            anyhow::Ok(kib.context("nfs3d has exited")? * 1024)
        };
        Ok((bytes("VmRSS:")?, bytes("VmHWM:")?))
    }

    pub(crate) fn reset_peak_rss(&self) -> io::Result<()> {
        fs::write(self.proc().join("clear_refs"), "5")
    }

    pub(crate) fn connections(&self) -> io::Result<usize> {
        let is_socket = |entry: io::Result<fs::DirEntry>| {
            // The descriptor may have been closed since `read_dir` listed it.
            let target = entry.and_then(|entry| fs::read_link(entry.path()));
            target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        let sockets = fs::read_dir(self.proc().join("fd"))?.map(is_socket);
        Ok(sockets.filter(|is_socket| *is_socket).count().saturating_sub(self.own_sockets))
    }

    pub(crate) async fn metrics(&self) -> anyhow::Result<Metrics> {
        let mut socket = TcpStream::connect(self.metrics).await?;
        socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut text = String::new();
        socket.read_to_string(&mut text).await?;
        let sum = |name: &str| -> u64 {
            let values = text
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.split(' ').nth(1)?.parse::<u64>().ok());
            values.sum()
        };
        Ok(Metrics {
            memory: sum("rpcrdma_server_memory_bytes"),
            arrivals: sum("rpcrdma_server_connections_total"),
        })
    }

    fn proc(&self) -> PathBuf {
        format!("/proc/{}", self.child.id()).into()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Metrics {
    /// The number of bytes that count toward the memory budget.
    pub(crate) memory: u64,
    /// The number of connections so far, including rejected connections.
    pub(crate) arrivals: u64,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build() -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Both packages are built together, so that shared dependencies have the same features and are not
    // compiled again.
    cargo.args(["build", "--package", "rpcrdma-tests", "--package", "rpcrdma-nfs", "--bin", "nfs3d"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo failed to build nfs3d");
    Ok(env::current_exe()?.with_file_name("nfs3d"))
}

fn served(folder: &TempDir) -> PathBuf {
    folder.path().join("served")
}

pub(crate) fn slow_file(number: usize) -> String {
    format!("slow{number}")
}

fn fill(served: &Path) -> io::Result<()> {
    fs::create_dir(served)?;
    for number in 0..FILES {
        fs::write(served.join(number.to_string()), vec![number.to_be_bytes()[7]; SMALL])?;
    }
    for name in ["shared", "written"] {
        File::create(served.join(name))?;
    }
    for number in 0..SLOW_FILES {
        File::create(served.join(slow_file(number)))?.set_len(1 << 20)?;
    }
    File::create(served.join("large"))?.set_len(LARGE)
}
