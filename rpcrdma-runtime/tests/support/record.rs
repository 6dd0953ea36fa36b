//! Records of RPC over TCP (RFC 5531 section 11).

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends a call on a new connection, and returns the reply, which must have a single fragment.
pub(crate) async fn exchange(address: SocketAddr, call: &[u8]) -> Vec<u8> {
    const LAST: u32 = 1 << 31;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_u32(LAST | u32::try_from(call.len()).unwrap()).await.unwrap();
    socket.write_all(call).await.unwrap();
    let mark = socket.read_u32().await.unwrap();
    let mut reply = vec![0; usize::try_from(mark - LAST).unwrap()];
    socket.read_exact(&mut reply).await.unwrap();
    reply
}
