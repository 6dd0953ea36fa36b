//! Attacks with malformed and forged messages.

use std::convert::Infallible;

use anyhow::bail;
use bytes::Bytes;
use rpcrdma_nfs::client::{ServerConnection, this_user};
use rpcrdma_nfs3::{Getattr3Args, Getattr3Res, NfsFh3, nfs_v3};
use rpcrdma_runtime::proto::work::{Action, Segment, Token};
use rpcrdma_runtime::wire::iwarp::mpa::MAX_PRIVATE_DATA;
use rpcrdma_runtime::xdr::SmallOpaque;
use rpcrdma_runtime::{TcpClient, TcpClientOptions};
use rpcrdma_sim::fabric::Rng;
use tokio::io::AsyncWriteExt;

use super::Target;
use crate::peer::{RdmaPeer, closed, connect, host, mpa_request};

const PEERS: usize = 16;

/// Returns a random number generator with a different seed for each attempt.
fn rng(target: &Target, number: usize) -> Rng {
    let attempts = target.effort().attempts.load(std::sync::atomic::Ordering::Relaxed);
    Rng::new(attempts << 16 | number as u64)
}

fn random_bytes(rng: &mut Rng, len: u64) -> Vec<u8> {
    (0..rng.below(len)).map(|_| rng.next_u64().to_be_bytes()[7]).collect()
}

/// Sends random bytes to the server's RDMA or TCP port. On the RDMA port, some attempts perform the MPA
/// handshake first.
pub(super) async fn garbage(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut rng = rng(&target, number);
        let octets = random_bytes(&mut rng, 4096);
        let mut socket = match rng.below(3) {
            0 => connect(host(number), target.rdma).await?,
            1 => connect(host(number), target.tcp).await?,
            _ => RdmaPeer::connect(host(number), target.rdma).await?.socket,
        };
        socket.write_all(&octets).await?;
        socket.shutdown().await?;
        Ok(closed(&mut socket).await?)
    };
    target.repeat(PEERS, attempt).await
}

/// Sends MPA requests that declare and contain more private data than MPA allows.
pub(super) async fn oversized_private_data(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut request = mpa_request()?;
        let claimed = u64::from(u16::MAX - MAX_PRIVATE_DATA);
        let claimed = u16::try_from(rng(&target, number).below(claimed))? + MAX_PRIVATE_DATA + 1;
        // The length of the private data is the last field of the 20-byte header.
        let length = request.get_mut(18..20).map(|length| length.copy_from_slice(&claimed.to_be_bytes()));
        if length.is_none() {
            bail!("the request is too short");
        }
        let mut socket = connect(host(number), target.rdma).await?;
        socket.write_all(&request).await?;
        socket.write_all(&vec![0; claimed.into()]).await?;
        Ok(closed(&mut socket).await?)
    };
    target.repeat(PEERS, attempt).await
}

pub(super) async fn foreign_rdma_handles(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut rng = rng(&target, number);
        let mut peer = RdmaPeer::connect(host(number), target.rdma).await?;
        let (token, random) = (Token(0), rng.next_u64());
        let handle = u32::try_from(random >> 32)?;
        let memory = Segment { handle, length: 64, offset: random << 12 };
        peer.submit(if rng.below(2) == 0 {
            Action::read(token, memory)
        } else {
            Action::Write { token, sink: memory, data: Bytes::from_static(&[7; 64]) }
        })
        .await?;
        Ok(closed(&mut peer.socket).await?)
    };
    target.repeat(PEERS, attempt).await
}

/// Sends GETATTRs with file handles that differ from the root's file handle in one bit.
pub(super) async fn foreign_file_handles(target: Target) -> Infallible {
    let attempt = |target: Target, number| async move {
        let mut rng = rng(&target, number);
        let options = TcpClientOptions { credential: this_user(), ..TcpClientOptions::default() };
        let nfs = nfs_v3::Client(ServerConnection::from(TcpClient::connect_with(target.tcp, options).await?));
        for _ in 0..100 {
            let mut handle = target.root.data.as_slice().to_vec();
            let at = usize::try_from(rng.below(handle.len() as u64))?;
            if let Some(octet) = handle.get_mut(at) {
                *octet ^= 1 << rng.below(8);
            }
            let object = NfsFh3 { data: SmallOpaque::new(&handle)? };
            if let Getattr3Res::Nfs3Ok(_) = nfs.getattr(&Getattr3Args { object }).await? {
                target.record_breach(format!("the server accepted a forged file handle: {object:?}"));
            }
        }
        Ok(())
    };
    target.repeat(PEERS, attempt).await
}
