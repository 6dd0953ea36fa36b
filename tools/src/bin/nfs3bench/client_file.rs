//! A test file accessed with this project's client.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use bytes::Bytes;
use rpcrdma_nfs::client::{NfsConnection, Remote, RemoteFile, ServerConnection, Url, this_user};
#[cfg(feature = "verbs")]
use rpcrdma_nfs::{client::Transport, provider::Provider};
use rpcrdma_nfs3::nfs_v3::{self, NfsV3};
use rpcrdma_nfs3::{
    Fsinfo3Args, Fsinfo3Res, Getattr3Args, Getattr3Res, NfsFh3, Read3Args, Read3Res, StableHow, Write3Args,
    Write3Res,
};
#[cfg(feature = "verbs")]
use rpcrdma_runtime::Client;
use rpcrdma_runtime::ClientOptions;
#[cfg(feature = "verbs")]
use rpcrdma_verbs::{AutoConnector, VerbsConnector};
use tokio::task::JoinSet;

use crate::image::{Images, PIECE, SIZE, looks_like};
use crate::turn::{Done, Operation, Turn, Work};

pub(crate) struct ClientFile {
    remote: Remote,
    dir: RemoteFile,
    name: Bytes,
    file: File,
}

/// The state that concurrent callers share.
#[derive(Clone)]
struct File {
    nfs: nfs_v3::Client<NfsConnection>,
    handle: NfsFh3,
    /// The maximum number of bytes in one READ or WRITE.
    max_transfer: usize,
}

impl ClientFile {
    pub(crate) async fn open(url: &Url, name: &'static str, spin: Duration) -> anyhow::Result<Self> {
        let options = ClientOptions { credential: this_user(), ..ClientOptions::of::<NfsV3>() };
        let connection = connect(url, options.clone(), spin).await?;
        let remote = Remote::mount_over(connection, url, &options).await?;
        let dir = remote.find(&url.path).await?;
        let name = Bytes::from_static(name.as_bytes());
        let nfs = remote.nfs().clone();
        let max_transfer = match nfs.fsinfo(&Fsinfo3Args { fsroot: dir.handle }).await? {
            Fsinfo3Res::Nfs3Ok(info) => usize::try_from(info.rtmax.min(info.wtmax))?,
            Fsinfo3Res::Default(status, _) => bail!("FSINFO: {status:?}"),
        };
        let handle = remote.create(&dir, name.clone(), 0o600).await?.handle;
        let file = File { nfs, handle, max_transfer };
        Ok(ClientFile { remote, dir, name, file })
    }

    pub(crate) async fn fill(&self, image: &Bytes) -> anyhow::Result<()> {
        let piece = PIECE.min(self.file.max_transfer);
        for at in (0..image.len()).step_by(piece) {
            self.file.write(at, image.slice(at..image.len().min(at + piece))).await?;
        }
        Ok(())
    }

    pub(crate) async fn has_contents(&self, expected: &[u8]) -> anyhow::Result<bool> {
        let max_transfer = PIECE.min(self.file.max_transfer);
        for (piece, at) in expected.chunks(max_transfer).zip((0..).step_by(max_transfer)) {
            if self.file.read(at, piece.len()).await? != piece {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes calls for the given time, with one task for each outstanding call.
    pub(crate) async fn turn(&self, work: Work, images: &Images) -> anyhow::Result<Done> {
        let (size, max_transfer) = (work.operation.part(0).len(), self.file.max_transfer);
        ensure!(size <= max_transfer, "{size} bytes in a call exceed the server's maximum of {max_transfer}");
        let turn = Arc::new(Turn::begin(work.time));
        let mut callers = JoinSet::new();
        for _ in 0..work.in_flight {
            let (file, turn) = (self.file.clone(), turn.clone());
            let (old, new) = (images.old.clone(), images.new.clone());
            callers.spawn(async move { file.calls(work.operation, &turn, &old, &new).await });
        }
        while let Some(finished) = callers.join_next().await {
            finished??;
        }
        Ok(turn.end())
    }

    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        Ok(self.remote.remove(&self.dir, self.name).await?)
    }
}

impl File {
    async fn calls(&self, operation: Operation, turn: &Turn, old: &Bytes, new: &Bytes) -> anyhow::Result<()> {
        while let Some(number) = turn.next() {
            let part = operation.part(number);
            match operation {
                Operation::Getattr => {
                    ensure!(self.size().await? == SIZE as u64, "GETATTR: the file size is not {SIZE} bytes")
                }
                Operation::Read(size) => {
                    let data = self.read(part.start, size).await?;
                    ensure!(looks_like(&data, &old[part]), "READ: wrong data");
                }
                Operation::Write(_) => self.write(part.start, new.slice(part)).await?,
            }
        }
        Ok(())
    }

    async fn size(&self) -> anyhow::Result<u64> {
        match self.nfs.getattr(&Getattr3Args { object: self.handle }).await? {
            Getattr3Res::Nfs3Ok(found) => Ok(found.obj_attributes.size),
            Getattr3Res::Default(status) => bail!("GETATTR: {status:?}"),
        }
    }

    async fn read(&self, at: usize, size: usize) -> anyhow::Result<Bytes> {
        let args = Read3Args { file: self.handle, offset: at as u64, count: u32::try_from(size)? };
        match self.nfs.read(&args).await? {
            Read3Res::Nfs3Ok(read) => Ok(read.data.into_bytes()),
            Read3Res::Default(status, _) => bail!("READ: {status:?}"),
        }
    }

    /// Writes to stable storage, as Linux does if the data fits in one call.
    async fn write(&self, at: usize, data: Bytes) -> anyhow::Result<()> {
        let (file, offset, count) = (self.handle, at as u64, u32::try_from(data.len())?);
        let args = Write3Args { file, offset, count, stable: StableHow::FileSync, data: data.into() };
        match self.nfs.write(&args).await? {
            Write3Res::Nfs3Ok(done) => {
                ensure!(done.count == count, "WRITE wrote {} of {count} bytes", done.count)
            }
            Write3Res::Default(status, _) => bail!("WRITE: {status:?}"),
        }
        Ok(())
    }
}

#[cfg(feature = "verbs")]
async fn connect(url: &Url, options: ClientOptions, spin: Duration) -> anyhow::Result<ServerConnection> {
    let verbs = rpcrdma_verbs::VerbsOptions { spin, ..rpcrdma_verbs::VerbsOptions::default() };
    let address = url.address();
    let client = match (url.transport, url.provider) {
        (Transport::Rdma, Provider::Verbs) => {
            Client::connect_via(VerbsConnector::new(address, verbs), options).await?
        }
        (Transport::Rdma, Provider::Auto) => {
            let connector = AutoConnector::new(address, verbs, options.iwarp.clone());
            Client::connect_via(connector, options).await?
        }
        _ => return Ok(ServerConnection::to(url, options).await?),
    };
    Ok(client.into())
}

#[cfg(not(feature = "verbs"))]
async fn connect(url: &Url, options: ClientOptions, _spin: Duration) -> anyhow::Result<ServerConnection> {
    Ok(ServerConnection::to(url, options).await?)
}
