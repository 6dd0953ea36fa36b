//! Attacks on the server's storage.

use std::convert::Infallible;

use anyhow::ensure;
use bytes::Bytes;
use rpcrdma_nfs::client::{ServerConnection, this_user};
use rpcrdma_nfs3::nfs_v3::proc::Write;
use rpcrdma_nfs3::{
    Create3Args, Create3Res, Diropargs3, Remove3Args, Remove3Res, StableHow, Write3Args, Write3Res, nfs_v3,
};
use rpcrdma_runtime::{TcpClient, TcpClientOptions};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::Target;
use crate::peer::{connect, host, record};

const PEERS: usize = 4;

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
    target.repeat(PEERS, attempt).await
}
