//! Building blocks of attacks: addresses, encoded calls, and connections that the attack drives itself.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_nfs::client::this_user;
use rpcrdma_runtime::program::{Procedure, Program};
use rpcrdma_runtime::proto::iwarp::{Offer, Role, Stream};
use rpcrdma_runtime::proto::work::{Action, Completion, Memory, Segment, Token};
use rpcrdma_runtime::wire::iwarp::mpa::{self, FrameHeader, FrameKind, ReadDepths};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::wire::rdma::{Body, ChunkLists, Header, ReadSegment, WriteChunk};
use rpcrdma_runtime::wire::rpc::{CallHeader, record_mark};
use rpcrdma_runtime::xdr::{Encode, Message, Reducer};
use rpcrdma_sim::fabric::Rng;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

/// Returns the address of an attacking host that the server does not refuse.
pub(crate) fn host(number: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, 2u8.saturating_add(low_byte(number % 200))).into()
}

/// Returns the address of a host that the server refuses.
pub(crate) fn refused_host(number: usize) -> IpAddr {
    Ipv4Addr::new(127, 128, 0, low_byte(number % 200)).into()
}

fn low_byte(number: usize) -> u8 {
    number.to_be_bytes()[7]
}

/// Returns a socket with the local address `from`. An IPv6 address need not be assigned to an interface.
fn bound(from: IpAddr) -> io::Result<TcpSocket> {
    let socket = match from {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            SockRef::from(&socket).set_freebind_v6(true)?;
            socket
        }
    };
    socket.bind((from, 0).into())?;
    Ok(socket)
}

pub(crate) async fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let stream = bound(from)?.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Like [`connect`], with socket buffers so small that the server must keep unread replies in memory.
pub(crate) async fn connect_without_buffers(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = bound(from)?;
    socket.set_recv_buffer_size(4096)?;
    // On loopback, long segments would give the server a send buffer of several megabytes.
    SockRef::from(&socket).set_tcp_mss(1440)?;
    socket.connect(to).await
}

pub(crate) async fn closed(socket: &mut TcpStream) -> io::Result<()> {
    drip(socket, Duration::ZERO).await
}

/// The number of bytes that a slow peer sends or receives at a time.
pub(crate) const PIECE: usize = 4096;

/// Reads up to [`PIECE`] bytes at a time, with a pause after each read, until the peer closes the connection.
pub(crate) async fn drip(socket: &mut TcpStream, pause: Duration) -> io::Result<()> {
    let mut room = [0; PIECE];
    loop {
        match socket.read(&mut room).await {
            Ok(0) => return Ok(()),
            Ok(_) => sleep(pause).await,
            Err(error) if is_closed(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Encodes a call and separates its eligible items of at least 1,024 bytes.
fn message<P: Procedure>(xid: u32, args: &P::Args) -> io::Result<Message> {
    let mut reducer = Reducer::new(1024);
    let (program, version) = (P::Program::NUMBER, P::Program::VERSION);
    let header = CallHeader { xid, program, version, procedure: P::NUMBER, credential: this_user() };
    header.encode(&mut reducer).and_then(|()| args.encode(&mut reducer)).map_err(io::Error::other)?;
    Ok(reducer.into_message())
}

pub(crate) fn record<P: Procedure>(xid: u32, args: &P::Args) -> io::Result<Vec<u8>> {
    let message = message::<P>(xid, args)?;
    let mark = record_mark(message.unreduced_len()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(std::iter::once(mark.to_vec()).chain(message.into_pieces().map(Vec::from)).flatten().collect())
}

pub(crate) fn mpa_request() -> io::Result<Vec<u8>> {
    OFFER.request(&PrivateData::new(true, 4096, 4096).encode()).map_err(io::Error::other)
}

const OFFER: Offer = Offer { crc: false, markers: false, ird: 128, ord: 16 };

/// An iWARP connection without a background task: the attack decides when to send and when to receive.
pub(crate) struct RdmaPeer {
    pub(crate) socket: TcpStream,
    stream: Stream,
}

impl RdmaPeer {
    pub(crate) async fn connect(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        RdmaPeer::over(connect(from, to).await?).await
    }

    pub(crate) async fn over(mut socket: TcpStream) -> io::Result<Self> {
        socket.write_all(&mpa_request()?).await?;
        let mut head = [0; mpa::HEADER_LEN];
        socket.read_exact(&mut head).await?;
        let header = FrameHeader::parse(FrameKind::Reply, &head).map_err(io::Error::other)?;
        let mut private_data = vec![0; header.private_data_len.into()];
        socket.read_exact(&mut private_data).await?;
        let (depths, _) = ReadDepths::split(&private_data).map_err(io::Error::other)?;
        let agreed = OFFER.conclude(&header, Some(depths)).map_err(io::Error::other)?;
        let mut rng = Rng::new(socket.local_addr()?.port().into());
        let config = agreed.stream(Role::Initiator, 4096, 1440, 1 << 30);
        let mut stream = Stream::new(config, move || Some(rng.next_u64()));
        stream.submit(Action::PostReceives { count: 128 });
        Ok(RdmaPeer { socket, stream })
    }

    pub(crate) fn register(&mut self, memory: Memory) -> io::Result<Segment> {
        self.stream.submit(Action::Register { token: Token(0), memory });
        match self.stream.poll_completion() {
            Some(Completion::Registered { segment, .. }) => Ok(segment),
            other => Err(io::Error::other(format!("not registered: {other:?}"))),
        }
    }

    /// Sends a call with these Write chunks. If there is a `source`, each eligible item has a Read chunk with
    /// this segment.
    pub(crate) async fn call<P: Procedure>(
        &mut self,
        xid: u32,
        args: &P::Args,
        source: Option<Segment>,
        writes: Vec<WriteChunk>,
    ) -> io::Result<()> {
        let Message { stream, items } = message::<P>(xid, args)?;
        let chunk = |segment| items.iter().map(move |item| ReadSegment { position: item.position, segment });
        let reads = source.into_iter().flat_map(chunk).collect();
        let body = Body::Msg(ChunkLists { reads, writes, reply: None });
        let message = Header { xid, credits: 64, body }.with_payload(Some(stream));
        self.submit(Action::Send { token: Token(u64::from(xid)), message, invalidate: None }).await
    }

    pub(crate) async fn submit(&mut self, action: Action) -> io::Result<()> {
        self.stream.submit(action);
        self.send(usize::MAX).await.map(drop)
    }

    /// Serves RDMA Reads until this many bytes have been sent.
    pub(crate) async fn serve(&mut self, mut bytes: usize) -> io::Result<()> {
        let mut room = [0; 4096];
        while bytes > 0 {
            let count = self.socket.read(&mut room).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.stream.receive(room.get(..count).unwrap_or_default());
            while self.stream.poll_completion().is_some() {}
            bytes = bytes.saturating_sub(self.send(bytes).await?);
        }
        Ok(())
    }

    /// Sends the pending data of RDMA Reads in pieces of about [`PIECE`] bytes, with a pause after each
    /// piece. Fails if no data is pending.
    pub(crate) async fn serve_slowly(&mut self, pause: Duration) -> io::Result<()> {
        if !self.stream.has_output() {
            return Err(io::Error::other("no data is pending"));
        }
        while self.send(PIECE).await? > 0 {
            sleep(pause).await;
        }
        Ok(())
    }

    /// Sends pending output, up to about this many bytes.
    async fn send(&mut self, bytes: usize) -> io::Result<usize> {
        let mut sent = 0usize;
        while sent < bytes && self.stream.has_output() {
            let mut pieces: VecDeque<Bytes> = VecDeque::new();
            let max = bytes.saturating_sub(sent).min(1 << 16);
            sent = sent.saturating_add(self.stream.poll_transmit(max, &mut pieces));
            for piece in pieces {
                self.socket.write_all(&piece).await?;
            }
        }
        Ok(sent)
    }
}
