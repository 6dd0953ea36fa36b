//! Attacks that occupy the server's connection slots.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use rpcrdma_nfs3::Read3Args;
use rpcrdma_nfs3::nfs_v3::proc::Read;
use rpcrdma_runtime::proto::work::Memory;
use rpcrdma_runtime::wire::rdma::WriteChunk;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::Target;
use super::memory::HOLD;
use crate::peer::{
    RdmaPeer, closed, connect, connect_without_buffers, host, mpa_request, record, refused_host,
};
use crate::prefix::Prefix;

/// The number of connections that an attack opens. It exceeds the server's default limit of 1,024, but each
/// of the [`HOSTS`] hosts stays below the limit of 256 per host.
const CONNECTIONS: usize = 1200;
const HOSTS: usize = 6;
/// The maximum number of connections from one IPv6 prefix. It exceeds the server's limit of 256, because this
/// process may notice late that the server has closed a connection.
const PREFIX_MAX: usize = 512;
/// The number of bytes that each READ of [`busy`] requests. The reply exceeds the socket buffers of the
/// connection.
const REPLY: u32 = 256 << 10;

pub(super) async fn half_open(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut socket = connect(host(number % HOSTS), target.rdma).await?;
        let request = mpa_request()?;
        socket.write_all(request.get(..request.len() / 2).unwrap_or_default()).await?;
        Ok(closed(&mut socket).await?)
    };
    target.repeat(CONNECTIONS, attempt).await
}

pub(super) async fn slow_handshakes(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut socket = connect(host(number % HOSTS), target.rdma).await?;
        for octet in mpa_request()? {
            socket.write_all(&[octet]).await?;
            sleep(Duration::from_millis(500)).await;
        }
        Ok(closed(&mut socket).await?)
    };
    target.repeat(CONNECTIONS, attempt).await
}

pub(super) async fn refused(target: Target) -> Infallible {
    let attempt = |target: Target, number: usize| async move {
        let to = if number.is_multiple_of(2) { target.rdma } else { target.tcp };
        let mut socket = connect(refused_host(number % HOSTS), to).await?;
        Ok(closed(&mut socket).await?)
    };
    target.repeat(CONNECTIONS, attempt).await
}

pub(super) async fn idle_over_rdma(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut peer = RdmaPeer::connect(host(number % HOSTS), target.rdma).await?;
        Ok(closed(&mut peer.socket).await?)
    };
    target.repeat(CONNECTIONS, attempt).await
}

/// Opens connections from different addresses of one IPv6 prefix, which counts as one address.
pub(super) async fn idle_from_one_prefix(target: Target) -> Infallible {
    let open = Arc::new(AtomicUsize::new(0));
    let attempt = move |target: Target, number| {
        let open = open.clone();
        async move {
            let mut peer = RdmaPeer::connect(Prefix::host(number).into(), target.rdma).await?;
            let count = open.fetch_add(1, Ordering::Relaxed) + 1;
            if count > PREFIX_MAX {
                target.record_breach(format!("{count} connections from one IPv6 prefix"));
            }
            let closed = closed(&mut peer.socket).await;
            open.fetch_sub(1, Ordering::Relaxed);
            Ok(closed?)
        }
    };
    target.repeat(CONNECTIONS, attempt).await
}

pub(super) async fn idle_over_tcp(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        // Connect at intervals of 1 ms, because a burst would overflow the listener's queue. These peers send
        // no data, so no retransmission would complete a TCP handshake that the server dropped.
        sleep(Duration::from_millis(u64::try_from(number)?)).await;
        let mut socket = connect(host(number % HOSTS), target.tcp).await?;
        Ok(closed(&mut socket).await?)
    };
    target.repeat(CONNECTIONS, attempt).await
}

/// Opens connections and sends one READ on each. The reply waits for memory at the server, or the attacker
/// does not read the reply.
pub(super) async fn busy(target: Target) -> Infallible {
    let attempt = |target: Target, number: usize| async move {
        // Connect at intervals of 1 ms, because a burst would overflow the listener's queue.
        sleep(Duration::from_millis(u64::try_from(number)?)).await;
        let (host, is_rdma) = (host(number % HOSTS), (number / HOSTS).is_multiple_of(2));
        let args = Read3Args { file: target.large, offset: 0, count: REPLY };
        let mut socket =
            connect_without_buffers(host, if is_rdma { target.rdma } else { target.tcp }).await?;
        if is_rdma {
            let mut peer = RdmaPeer::over(socket).await?;
            let sink = peer.register(Memory::Sink(BytesMut::with_capacity(REPLY as usize)))?;
            peer.call::<Read>(1, &args, None, vec![WriteChunk(vec![sink])]).await?;
            socket = peer.socket;
        } else {
            socket.write_all(&record::<Read>(1, &args)?).await?;
        }
        // Wait until the server closes the connection or starts to send the reply.
        if socket.peek(&mut [0]).await? > 0 {
            sleep(HOLD).await;
        }
        Ok(())
    };
    target.repeat(CONNECTIONS, attempt).await
}
