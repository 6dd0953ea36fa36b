//! An honest client, which makes short and long calls over both transports, one at a time on each. The client
//! also opens new connections regularly.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs::client::{ServerConnection, this_user};
use rpcrdma_nfs3::{
    Diropargs3, Getattr3Args, Getattr3Res, Lookup3Args, Lookup3Res, NfsFh3, Read3Args, Read3Res, StableHow,
    Write3Args, Write3Res, nfs_v3,
};
use rpcrdma_runtime::Client;
use rpcrdma_runtime::{ClientOptions, TcpClient, TcpClientOptions};
use tokio::sync::oneshot;
use tokio::time::{interval, sleep, timeout};

use crate::daemon::{FILES, SMALL};

/// The time limit for an honest call, or for a new connection with its first call.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between calls on one connection.
const PAUSE: Duration = Duration::from_millis(5);
/// The length of a long READ or WRITE, in bytes. A long call waits until the server's memory budget has room.
const LONG: u32 = 1 << 20;
/// Of this many calls, one is a long READ and one is a long WRITE.
const LONG_TURNS: usize = 20;
/// The time between two new connections, and the delay before a failed connection is replaced.
const ARRIVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The latencies of calls on connections that stay open.
    pub(crate) latencies: Vec<Duration>,
    /// The longest latency, with the transport and a description of the call.
    pub(crate) slowest: Option<(Duration, &'static str, &'static str)>,
    /// The latencies of new connections, each of which includes the handshake and one call. They are
    /// separate, because about 1% of the latencies would be of new connections and would determine the p99
    /// latency.
    pub(crate) new_connections: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

/// The client, which runs on a separate thread until this value is dropped.
pub(crate) struct Honest {
    log: Log,
    _running: oneshot::Sender<()>,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Record>>);

#[derive(Clone, Copy, Debug)]
enum Transport {
    Rdma(SocketAddr),
    Tcp(SocketAddr),
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::Rdma(_) => "RDMA",
            Transport::Tcp(_) => "TCP",
        }
    }
}

impl Record {
    fn add(&mut self, latency: Duration, by: Transport, procedure: &'static str) {
        self.latencies.push(latency);
        self.slowest = self.slowest.max(Some((latency, by.name(), procedure)));
    }
}

impl Honest {
    /// Starts the client and waits until it has found its files.
    pub(crate) fn start(rdma: SocketAddr, tcp: SocketAddr) -> anyhow::Result<Self> {
        let (log, (ready, is_ready)) = (Log::default(), mpsc::channel());
        let (running, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tasks = log.clone();
        thread::spawn(move || {
            runtime.block_on(async {
                let known = find_files(Transport::Tcp(tcp)).await;
                let known = known.map_err(|error| ready.send(Err(error)));
                let Ok(files) = known else { return };
                let _ = ready.send(Ok(()));
                let forever = async {
                    tokio::join!(
                        tasks.call(Transport::Rdma(rdma), &files),
                        tasks.call(Transport::Tcp(tcp), &files),
                        tasks.arrive([Transport::Rdma(rdma), Transport::Tcp(tcp)]),
                    )
                };
                tokio::select! {
                    _ = forever => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv()??;
        Ok(Honest { log, _running: running })
    }

    pub(crate) fn take(&self) -> Record {
        std::mem::take(&mut *self.log.record())
    }
}

impl Log {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, by: Transport, error: &anyhow::Error) {
        self.record().failures.push(format!("{by:?}: {error:#}"));
    }

    async fn call(&self, by: Transport, files: &[NfsFh3]) {
        loop {
            if let Err(error) = self.call_until_failure(by, files).await {
                self.failed(by, &error);
            }
            sleep(ARRIVAL).await;
        }
    }

    async fn call_until_failure(&self, by: Transport, files: &[NfsFh3]) -> anyhow::Result<()> {
        let nfs = nfs_v3::Client(connect(by).await?);
        let mut pauses = interval(PAUSE);
        for turn in 0.. {
            pauses.tick().await;
            let started = Instant::now();
            let called = timeout(PATIENCE, call(&nfs, files, turn)).await;
            let procedure = called.context("no reply within 10 s")??;
            self.record().add(started.elapsed(), by, procedure);
        }
        Ok(())
    }

    /// Opens new connections and makes one call on each.
    async fn arrive(&self, transports: [Transport; 2]) {
        for by in transports.into_iter().cycle() {
            sleep(ARRIVAL).await;
            let started = Instant::now();
            let arriving = async {
                nfs_v3::Client(connect(by).await?).null().await?;
                anyhow::Ok(())
            };
            let arrived = timeout(PATIENCE, arriving).await;
            match arrived.context("no connection or no reply within 10 s").flatten() {
                Ok(()) => self.record().new_connections.push(started.elapsed()),
                Err(error) => self.failed(by, &error.context("a new connection")),
            }
        }
    }
}

async fn connect(by: Transport) -> anyhow::Result<ServerConnection> {
    // Disable reconnection, so that a lost connection counts as a failure.
    let (credential, timeout, reconnect) = (this_user(), PATIENCE, None);
    Ok(match by {
        Transport::Rdma(address) => {
            let options = ClientOptions { credential, timeout, reconnect, ..ClientOptions::default() };
            Client::connect_with(address, options).await?.into()
        }
        Transport::Tcp(address) => {
            let options = TcpClientOptions { credential, timeout, reconnect, ..TcpClientOptions::default() };
            TcpClient::connect_with(address, options).await?.into()
        }
    })
}

/// Returns the file handles of the root directory, the small files, `shared`, `large` and `written`. Attacks
/// write to `shared` and read `large`. Only this client writes to `written`.
async fn find_files(by: Transport) -> anyhow::Result<Vec<NfsFh3>> {
    let connection = connect(by).await?;
    let root = root(&connection).await?;
    let names =
        (0..FILES).map(|number| number.to_string()).chain(["shared", "large", "written"].map(str::to_owned));
    let mut files = vec![root];
    for name in names {
        files.push(lookup(&connection, &root, &name).await?);
    }
    Ok(files)
}

pub(crate) async fn root(connection: &ServerConnection) -> anyhow::Result<NfsFh3> {
    match mount_v3::Client(connection.clone()).mnt(&"/".into()).await? {
        Mountres3::Mnt3Ok(mounted) => Ok(NfsFh3 { data: mounted.fhandle }),
        other => bail!("MNT: {other:?}"),
    }
}

pub(crate) async fn lookup(
    connection: &ServerConnection,
    dir: &NfsFh3,
    name: &str,
) -> anyhow::Result<NfsFh3> {
    let what = Diropargs3 { dir: *dir, name: name.into() };
    match nfs_v3::Client(connection.clone()).lookup(&Lookup3Args { what }).await? {
        Lookup3Res::Nfs3Ok(found) => Ok(found.object),
        other => bail!("LOOKUP of {name}: {other:?}"),
    }
}

async fn read_long(nfs: &nfs_v3::Client<ServerConnection>, file: NfsFh3) -> anyhow::Result<&'static str> {
    let read = nfs.read(&Read3Args { file, offset: 0, count: LONG }).await?;
    ensure!(matches!(&read, Read3Res::Nfs3Ok(it) if it.data.len() == LONG as usize), "READ of 1 MiB");
    Ok("READ of 1 MiB")
}

async fn write_long(nfs: &nfs_v3::Client<ServerConnection>, file: NfsFh3) -> anyhow::Result<&'static str> {
    let (stable, data) = (StableHow::Unstable, bytes::Bytes::from(vec![7; LONG as usize]).into());
    let written = nfs.write(&Write3Args { file, offset: 0, count: LONG, stable, data }).await?;
    ensure!(matches!(&written, Write3Res::Nfs3Ok(it) if it.count == LONG), "WRITE of 1 MiB: {written:?}");
    Ok("WRITE of 1 MiB")
}

async fn call(
    nfs: &nfs_v3::Client<ServerConnection>,
    files: &[NfsFh3],
    turn: usize,
) -> anyhow::Result<&'static str> {
    let number = turn % FILES;
    let [root, small @ .., shared, large, written] = files else { bail!("no files") };
    match turn % LONG_TURNS {
        10 => return read_long(nfs, *large).await,
        19 => return write_long(nfs, *written).await,
        _ => {}
    }
    let file = *small.get(number).context("no such file")?;
    let content = vec![number.to_be_bytes()[7]; SMALL];
    let count = u32::try_from(SMALL)?;
    Ok(match turn % 5 {
        0 => {
            let found = nfs.getattr(&Getattr3Args { object: file }).await?;
            ensure!(matches!(found, Getattr3Res::Nfs3Ok(_)), "GETATTR: {found:?}");
            "GETATTR"
        }
        1 => {
            let what = Diropargs3 { dir: *root, name: number.to_string().into() };
            let found = nfs.lookup(&Lookup3Args { what }).await?;
            ensure!(matches!(&found, Lookup3Res::Nfs3Ok(it) if it.object == file), "LOOKUP: {found:?}");
            "LOOKUP"
        }
        2 => {
            let read = nfs.read(&Read3Args { file, offset: 0, count }).await?;
            ensure!(matches!(&read, Read3Res::Nfs3Ok(it) if it.data[..] == content), "READ: {read:?}");
            "READ"
        }
        3 => {
            let (stable, data) = (StableHow::Unstable, bytes::Bytes::from(content).into());
            let written = nfs.write(&Write3Args { file, offset: 0, count, stable, data }).await?;
            ensure!(matches!(written, Write3Res::Nfs3Ok(_)), "WRITE: {written:?}");
            "WRITE"
        }
        _ => {
            let read = nfs.read(&Read3Args { file: *shared, offset: 0, count }).await?;
            ensure!(matches!(read, Read3Res::Nfs3Ok(_)), "READ of the shared file: {read:?}");
            "READ of the shared file"
        }
    })
}
