//! A client for rpcbind's local socket. rpcbind identifies the owner of a registration by the socket's peer
//! credentials. By default, Linux's rpcbind accepts registrations only over the local socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_runtime::program::{Credential, Procedure, Program};
use rpcrdma_runtime::wire::rpc::{CallHeader, Records, decode_reply, record_mark};
use rpcrdma_runtime::xdr::{Decode, Encode, Reader, Writer};
use rpcrdma_runtime::{CallError, CloseReason, TransportError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::MAX_REPLY;

/// A connection over a local socket, with the record marking of RPC over TCP. The connection runs one call at
/// a time.
#[derive(Debug)]
pub(super) struct Local {
    /// `None` if the last exchange failed, was cancelled, or received anything other than the reply to its
    /// call. The socket is then closed, because a partial record or other replies may remain on it. The next
    /// call reconnects.
    socket: Mutex<Option<UnixStream>>,
    path: PathBuf,
    next_xid: AtomicU32,
    timeout: Duration,
}

impl Local {
    pub(super) async fn connect(path: &Path, timeout: Duration) -> io::Result<Self> {
        let socket = UnixStream::connect(path).await?;
        let path = path.to_owned();
        Ok(Local { socket: Mutex::new(Some(socket)), path, next_xid: AtomicU32::new(1), timeout })
    }

    async fn exchange(&self, xid: u32, call: &[u8]) -> Result<Bytes, CallError> {
        let mut slot = self.socket.lock().await;
        // The socket is put back only if the reply to this call, and nothing else, has arrived. Otherwise,
        // the socket is dropped, which closes the connection.
        let mut socket = match slot.take() {
            Some(socket) => socket,
            None => self.reconnect().await?,
        };
        let exchange = timeout(self.timeout, transact(&mut socket, call));
        let reply = exchange.await.map_err(|_| CallError::Timeout(self.timeout))?;
        let closed = |error: io::Error| TransportError::Closed(CloseReason::Io(error.to_string()));
        let (reply, rest) = reply.map_err(closed)?;
        if rest.is_empty() && reply.starts_with(&xid.to_be_bytes()) {
            *slot = Some(socket);
        }
        Ok(reply)
    }

    async fn reconnect(&self) -> Result<UnixStream, TransportError> {
        let connecting = timeout(self.timeout, UnixStream::connect(&self.path));
        let socket = connecting.await.map_err(|_| TransportError::Timeout(self.timeout))?;
        socket.map_err(|error| TransportError::Unreachable(error.to_string()))
    }
}

/// Sends a call. Returns the next record, and the bytes that were received after it.
async fn transact(socket: &mut UnixStream, call: &[u8]) -> io::Result<(Bytes, BytesMut)> {
    let mark = record_mark(call.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
    socket.write_all(&[&mark, call].concat()).await?;
    let (mut records, mut input) = (Records::new(MAX_REPLY), BytesMut::new());
    loop {
        if let Some(reply) = records.next(&mut input).map_err(io::Error::other)? {
            return Ok((reply, input));
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl Local {
    pub(super) async fn call<Q: Procedure>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        let xid = self.next_xid.fetch_add(1, Ordering::Relaxed);
        let header = CallHeader {
            xid,
            program: Q::Program::NUMBER,
            version: Q::Program::VERSION,
            procedure: Q::NUMBER,
            credential: Credential::None,
        };
        let mut call = Writer::new();
        header.encode(&mut call).and_then(|()| args.encode(&mut call)).map_err(CallError::Encode)?;
        let reply = self.exchange(xid, call.as_slice()).await?;
        let mut reader = Reader::from_bytes(&reply);
        decode_reply(&mut reader, xid)?;
        let result = Q::Res::decode(&mut reader).map_err(CallError::Decode)?;
        reader.finish().map_err(CallError::Decode)?;
        Ok(result)
    }
}
