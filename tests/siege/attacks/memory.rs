//! Attacks on the server's memory: unread replies and unfinished calls.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_nfs3::nfs_v3::proc::{Read, Write};
use rpcrdma_nfs3::{Read3Args, StableHow, Write3Args};
use rpcrdma_runtime::proto::work::Memory;
use rpcrdma_runtime::wire::rdma::WriteChunk;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::Target;
use crate::peer::{PIECE, RdmaPeer, connect, connect_without_buffers, drip, host, is_closed, record};

/// The largest transfer that the server offers, in bytes.
const TRANSFER: u32 = 4 << 20;
/// The maximum size of a small transfer, in bytes. Small transfers wait for memory only if their host has
/// used up its share.
const SMALL_TRANSFER: u32 = 16 << 10;
/// The number of connections in most of these attacks.
const PEERS: usize = 10;
const CALLS: u32 = 64;
/// The time before an attempt closes its connection. This time exceeds the period over which the server
/// averages a peer's rate.
pub(super) const HOLD: Duration = Duration::from_secs(15);
/// The pause between pieces of 4 KiB. The resulting 40 KiB/s is less than the rate that the server requires.
const SLOW: Duration = Duration::from_millis(100);

async fn reads_over_rdma(target: &Target, number: usize) -> anyhow::Result<RdmaPeer> {
    let mut peer = RdmaPeer::over(connect_without_buffers(host(number), target.rdma).await?).await?;
    let sink = peer.register(Memory::Sink(BytesMut::with_capacity(TRANSFER as usize)))?;
    let args = Read3Args { file: target.large, offset: 0, count: TRANSFER };
    for xid in target.new_xids(CALLS) {
        peer.call::<Read>(xid, &args, None, vec![WriteChunk(vec![sink])]).await?;
    }
    Ok(peer)
}

async fn reads_over_tcp(target: &Target, number: usize) -> anyhow::Result<TcpStream> {
    let mut socket = connect_without_buffers(host(number), target.tcp).await?;
    let args = Read3Args { file: target.large, offset: 0, count: TRANSFER };
    for xid in 1..=CALLS {
        socket.write_all(&record::<Read>(xid, &args)?).await?;
    }
    Ok(socket)
}

pub(super) async fn unread_over_rdma(target: Target, hosts: usize) -> Infallible {
    let attempt = move |target: Target, number: usize| async move {
        let _peer = reads_over_rdma(&target, number % hosts).await?;
        sleep(HOLD).await;
        Ok(())
    };
    target.repeat(PEERS, attempt).await
}

/// Sends READs of 16 KiB and does not read the replies. The server counts replies of this size toward its
/// memory budget per connection, not per call.
pub(super) async fn small_unread_over_rdma(target: Target, hosts: usize, connections: usize) -> Infallible {
    let attempt = move |target: Target, number: usize| async move {
        let socket = connect_without_buffers(host(number % hosts), target.rdma).await?;
        let mut peer = RdmaPeer::over(socket).await?;
        let sink = peer.register(Memory::Sink(BytesMut::with_capacity(SMALL_TRANSFER as usize)))?;
        let args = Read3Args { file: target.large, offset: 0, count: SMALL_TRANSFER };
        for xid in target.new_xids(CALLS) {
            peer.call::<Read>(xid, &args, None, vec![WriteChunk(vec![sink])]).await?;
        }
        sleep(HOLD).await;
        Ok(())
    };
    target.repeat(connections, attempt).await
}

/// Sends READs of 4 MiB on so many connections that most calls wait for memory.
pub(super) async fn waiting_over_rdma(target: Target) -> Infallible {
    let attempt = |target: Target, number: usize| async move {
        let _peer = reads_over_rdma(&target, number % 4).await?;
        sleep(HOLD).await;
        Ok(())
    };
    target.repeat(450, attempt).await
}

pub(super) async fn unread_over_tcp(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let _socket = reads_over_tcp(&target, number).await?;
        sleep(HOLD).await;
        Ok(())
    };
    target.repeat(PEERS, attempt).await
}

pub(super) async fn slow_over_rdma(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut peer = reads_over_rdma(&target, number).await?;
        Ok(drip(&mut peer.socket, SLOW).await?)
    };
    target.repeat(PEERS, attempt).await
}

pub(super) async fn slow_over_tcp(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut socket = reads_over_tcp(&target, number).await?;
        Ok(drip(&mut socket, SLOW).await?)
    };
    target.repeat(PEERS, attempt).await
}

async fn write_slowly(socket: &mut TcpStream, data: &[u8]) -> io::Result<()> {
    for piece in data.chunks(PIECE) {
        socket.write_all(piece).await?;
        sleep(SLOW).await;
    }
    Ok(())
}

/// Returns an error unless the server closed the connection before a slow peer had sent all data.
fn rejected(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Ok(()) => Err(io::Error::other("the server accepted data that arrived too slowly")),
        Err(error) if is_closed(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// How a peer treats the last MiB of a transfer.
#[derive(Clone, Copy)]
pub(super) enum LastMib {
    /// The peer does not send the last MiB.
    Withheld,
    /// The peer sends the last MiB slowly.
    Slow,
}

/// Sends WRITEs and the data of their Read chunks. `last` selects whether the last MiB of this data is
/// withheld or sent slowly.
pub(super) async fn unfinished_chunks(target: Target, last: LastMib) -> Infallible {
    let data = Bytes::from(vec![7; TRANSFER as usize]);
    let attempt = move |target: Target, number| {
        let data = data.clone();
        async move {
            let mut peer = RdmaPeer::connect(host(number), target.rdma).await?;
            let (file, stable, bytes) = (target.shared, StableHow::Unstable, data.clone().into());
            let args = Write3Args { file, offset: 0, count: TRANSFER, stable, data: bytes };
            // 64 MiB in total, the maximum that the server fetches at a time for one connection.
            let calls = 16;
            // Each call has its own handle, because the server's reply invalidates the handle.
            let sources = (0..calls).map(|_| peer.register(Memory::Source(data.clone())));
            let sources = sources.collect::<io::Result<Vec<_>>>()?;
            for (xid, source) in target.new_xids(calls).zip(sources) {
                peer.call::<Write>(xid, &args, Some(source), Vec::new()).await?;
            }
            let all = TRANSFER as usize * calls as usize;
            peer.serve(all - (1 << 20)).await?;
            match last {
                LastMib::Withheld => sleep(HOLD).await,
                LastMib::Slow => rejected(peer.serve_slowly(SLOW).await)?,
            }
            Ok(())
        }
    };
    target.repeat(PEERS, attempt).await
}

/// Sends record fragments of 8 MiB plus one byte. [`LastMib::Withheld`] withholds only the last byte, so that
/// the server must store 8 MiB of each fragment.
pub(super) async fn unfinished_records(target: Target, last: LastMib) -> Infallible {
    let fragment = Bytes::from(vec![0; (8 << 20) + 1]);
    let attempt = move |target: Target, number| {
        let (mark, fragment) = (u32::try_from(fragment.len()), fragment.clone());
        async move {
            let mut socket = connect(host(number % PEERS), target.tcp).await?;
            socket.write_all(&mark?.to_be_bytes()).await?;
            let (first, rest) = fragment.split_at(match last {
                LastMib::Withheld => 8 << 20,
                LastMib::Slow => 7 << 20,
            });
            socket.write_all(first).await?;
            match last {
                LastMib::Withheld => sleep(HOLD).await,
                LastMib::Slow => rejected(write_slowly(&mut socket, rest).await)?,
            }
            Ok(())
        }
    };
    target.repeat(PEERS * 10, attempt).await
}
