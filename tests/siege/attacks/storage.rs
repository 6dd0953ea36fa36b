//! Attacks on the server's storage.

use std::convert::Infallible;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyEvent, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use rpcrdma_nfs::client::{ServerConnection, this_user};
use rpcrdma_nfs3::nfs_v3::proc::{Read, Write};
use rpcrdma_nfs3::{
    Create3Args, Create3Res, Diropargs3, Read3Args, Remove3Args, Remove3Res, StableHow, Write3Args,
    Write3Res, nfs_v3,
};
use rpcrdma_runtime::{TcpClient, TcpClientOptions};
use rustix::fs::CWD;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Target;
use crate::daemon::{SLOW_FILES, slow_file};
use crate::peer::{connect, host, record};

/// The number of attackers in most of these attacks. Ten hosts that each read 1 MiB at a time could use all
/// memory (SECURITY.md, "Many owners"), and honest calls could then exceed their time limit. Therefore, only
/// four hosts attack.
const PEERS: usize = 4;
/// The maximum time that a slow file takes to open.
const DELAY: Duration = Duration::from_secs(3);

async fn client(target: &Target) -> anyhow::Result<nfs_v3::Client<ServerConnection>> {
    let options = TcpClientOptions { credential: this_user(), ..TcpClientOptions::default() };
    Ok(nfs_v3::Client(TcpClient::connect_with(target.tcp, options).await?.into()))
}

fn stable_write(target: &Target, len: u32) -> Write3Args {
    let (stable, data) = (StableHow::FileSync, Bytes::from(vec![7; len as usize]).into());
    Write3Args { file: target.shared, offset: 0, count: len, stable, data }
}

pub(super) async fn abandoned_writes(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut socket = connect(host(number), target.tcp).await?;
        let args = stable_write(&target, 1 << 20);
        for xid in 1..=16 {
            socket.write_all(&record::<Write>(xid, &args)?).await?;
        }
        Ok(())
    };
    target.repeat(PEERS, attempt).await
}

/// Sends many stable WRITEs to the file `shared`, which the honest client reads.
pub(super) async fn stable_writes(target: Target) -> Infallible {
    let attempt = |target: Target, _| async move {
        let nfs = client(&target).await?;
        let mut calls = JoinSet::new();
        for _ in 0..16 {
            let (nfs, args) = (nfs.clone(), stable_write(&target, 4096));
            calls.spawn(async move { nfs.write(&args).await });
        }
        while let Some(written) = calls.join_next().await {
            let written = written??;
            ensure!(matches!(written, Write3Res::Nfs3Ok(_)), "WRITE: {written:?}");
        }
        Ok(())
    };
    target.repeat(PEERS, attempt).await
}

/// Sends READs of files that take up to [`DELAY`] to open, and resets the connection before the READs end.
pub(super) async fn slow_storage(target: Target) -> Infallible {
    let attempt = |target: Target, number: usize| async move {
        let turn = target.effort().attempts.load(Ordering::Relaxed).wrapping_add(number as u64);
        let turn = usize::try_from(turn)? % SLOW_FILES;
        let file = *target.slow.get(turn).context("no such file")?;
        let mut socket = connect(host(number), target.tcp).await?;
        for xid in 1..=16 {
            socket.write_all(&record::<Read>(xid, &Read3Args { file, offset: 0, count: 1 << 20 })?).await?;
        }
        // Gives the server time to start the calls.
        sleep(Duration::from_millis(500)).await;
        Ok(socket.set_zero_linger()?)
    };
    let delayed = async {
        let Err(error) = delay_opens(&target.served).await;
        target.record_breach(format!("storage is not slow: {error}"));
    };
    tokio::join!(target.clone().repeat(PEERS, attempt), delayed).0
}

/// Returns a fanotify group that decides whether processes may open these files.
fn fanotify(files: impl Iterator<Item = PathBuf>) -> nix::Result<Fanotify> {
    let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
    let group = Fanotify::init(flags, EventFFlags::O_RDONLY)?;
    for file in files {
        group.mark(MarkFlags::FAN_MARK_ADD, MaskFlags::FAN_OPEN_PERM, CWD, Some(&file))?;
    }
    Ok(group)
}

/// Returns an error unless this process can delay opens. This requires CAP_SYS_ADMIN, and a kernel with
/// CONFIG_FANOTIFY_ACCESS_PERMISSIONS.
pub(super) fn can_delay_opens() -> anyhow::Result<()> {
    let file = NamedTempFile::new()?;
    fanotify(iter::once(file.path().to_owned())).context("fanotify permission events")?;
    Ok(())
}

/// Delays the opening of the slow files. When this future is dropped, the kernel permits all pending opens.
async fn delay_opens(served: &Path) -> nix::Result<Infallible> {
    let group = fanotify((0..SLOW_FILES).map(|number| served.join(slow_file(number))))?;
    loop {
        sleep(DELAY).await;
        loop {
            let events = match group.read_events() {
                Ok(events) => events,
                // No events are pending.
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(error),
            };
            for fd in events.iter().filter_map(FanotifyEvent::fd) {
                group.write_response(FanotifyResponse::new(fd, Response::FAN_ALLOW))?;
            }
        }
    }
}

/// Sends WRITEs beyond the server's file size limit (`ulimit -f`).
pub(super) async fn past_file_limit(target: Target) -> Infallible {
    let attempt = |target: Target, _| async move {
        let args = Write3Args { offset: 1 << 30, ..stable_write(&target, 4096) };
        if let Write3Res::Nfs3Ok(_) = client(&target).await?.write(&args).await? {
            target.record_breach("a WRITE beyond the file size limit succeeded".to_owned());
        }
        Ok(())
    };
    target.repeat(PEERS, attempt).await
}

/// Creates and removes files, 100 per attempt. If the server kept 1 KiB for each removed file, 50,000 files
/// would exceed the limit on the growth of resident memory (48 MiB).
pub(super) async fn removed_files(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let nfs = client(&target).await?;
        for _ in 0..100 {
            let of = Diropargs3 { dir: target.root, name: format!("new{number}").into() };
            let created = nfs.create(&Create3Args { r#where: of.clone(), ..Create3Args::default() }).await?;
            ensure!(matches!(created, Create3Res::Nfs3Ok(_)), "CREATE: {created:?}");
            let removed = nfs.remove(&Remove3Args { object: of }).await?;
            ensure!(matches!(removed, Remove3Res::Nfs3Ok(_)), "REMOVE: {removed:?}");
        }
        Ok(())
    };
    target.repeat(4 * PEERS, attempt).await
}
