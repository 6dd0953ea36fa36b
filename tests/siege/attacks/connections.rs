//! Attacks on the slots for connections.

use std::convert::Infallible;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::Target;
use crate::peer::{RdmaPeer, closed, connect, host, mpa_request, refused_host};

/// More connections than the default limit of 1,024, from hosts that stay below the limit of 256 each.
const CONNECTIONS: usize = 1200;
const HOSTS: usize = 6;

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

pub(super) async fn idle_over_tcp(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        // A burst would overflow the listener's queue. These peers send no data, so no retransmission would
        // complete a dropped handshake.
        sleep(Duration::from_millis(u64::try_from(number)?)).await;
        let mut socket = connect(host(number % HOSTS), target.tcp).await?;
        Ok(closed(&mut socket).await?)
    };
    target.repeat(CONNECTIONS, attempt).await
}
