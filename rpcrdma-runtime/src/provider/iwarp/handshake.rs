use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::time::timeout;

use super::capture::Tap;
use super::{IwarpConnection, IwarpError, IwarpOptions};
use crate::proto::iwarp::{Agreed, Offer, Role, SetupError};
use crate::provider::{ConnectionInfo, raise_backlog};
use crate::wire::iwarp::mpa::{self, FrameHeader, FrameKind, ReadDepths};

/// Connects over TCP and performs the MPA handshake. `private_data` (at most 196 octets) is sent to the
/// responder. `receive_size` is the maximum length of a received Send, in octets.
///
/// # Errors
/// [`IwarpError`].
pub async fn connect(
    address: SocketAddr,
    private_data: &[u8],
    receive_size: u32,
    options: &IwarpOptions,
) -> Result<IwarpConnection, IwarpError> {
    let offer = options.offer();
    let request = offer.request(private_data)?;
    let connecting = async { Ok(TcpStream::connect(address).await?) };
    // Fails before connecting if the capture file cannot be written.
    options.prepare_capture()?;
    let mut socket = with_timeout(options.connect_timeout, "connecting over TCP", connecting).await?;
    options.prepare(&socket)?;
    let mut tap = Tap::open(&options.capture, &socket, Role::Initiator)?;
    let exchange = async {
        tap.sending(&request);
        socket.write_all(&request).await?;
        Frame::read(&mut socket, &mut tap, FrameKind::Reply).await
    };
    let reply = with_timeout(options.reply_timeout, "the MPA reply", exchange).await?;
    if reply.header.reject {
        return Err(IwarpError::Refused { private_data: reply.private_data });
    }
    let agreed = match offer.conclude(&reply.header, reply.depths) {
        Err(error @ SetupError::Depth { .. }) => {
            let octets = offer.terminate(&reply.header);
            send_last(&mut socket, &mut tap, &octets, options.reply_timeout).await?;
            return Err(error.into());
        }
        outcome => outcome?,
    };
    let info = info((&socket, address), reply.private_data, agreed, options);
    Ok(IwarpConnection::new((socket, tap), Role::Initiator, agreed, receive_size, info, options))
}

/// A listener for iWARP connections.
#[derive(Debug)]
pub struct IwarpListener {
    listener: TcpListener,
    options: IwarpOptions,
}

impl IwarpListener {
    /// Binds an address, and listens for TCP connections.
    ///
    /// # Errors
    /// An operating system error. If the capture file cannot be written (feature `capture`), the inner error
    /// is a `CaptureError`.
    pub async fn bind(address: impl ToSocketAddrs, options: IwarpOptions) -> io::Result<Self> {
        IwarpListener::of(TcpListener::bind(address).await?, options)
    }

    /// Listens on a TCP socket that is already bound, for example by systemd.
    ///
    /// # Errors
    /// If the capture file cannot be written (feature `capture`), the inner error is a `CaptureError`.
    pub fn of(listener: TcpListener, options: IwarpOptions) -> io::Result<Self> {
        options.prepare_capture().map_err(io::Error::other)?;
        raise_backlog(&listener);
        Ok(IwarpListener { listener, options })
    }

    /// Returns the bound address, with the port that the system chose if port 0 was requested.
    ///
    /// # Errors
    /// An operating system error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the next TCP connection without reading from it. Call [`Incoming::request`], which reads from
    /// the connection, on a separate task, so that a slow peer does not delay others.
    ///
    /// # Errors
    /// An operating system error, for example if one connection failed or the process has too
    /// many open files.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (socket, peer) = self.listener.accept().await?;
        Ok(Incoming { socket, peer, options: self.options.clone() })
    }
}

/// A TCP connection before the handshake. Dropping it closes the connection.
#[derive(Debug)]
pub struct Incoming {
    socket: TcpStream,
    peer: SocketAddr,
    options: IwarpOptions,
}

impl Incoming {
    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads the MPA request. If the input is not a valid MPA request, closes the connection without a reply.
    /// Rejects an MPA request with incompatible parameters.
    ///
    /// # Errors
    /// [`IwarpError`]. The connection is then closed.
    pub async fn request(self) -> Result<IwarpRequest, IwarpError> {
        let Incoming { mut socket, peer, options } = self;
        options.prepare(&socket)?;
        let mut tap = Tap::open(&options.capture, &socket, Role::Responder)?;
        let reading = Frame::read(&mut socket, &mut tap, FrameKind::Request);
        let frame = with_timeout(options.request_timeout, "the MPA request", reading).await?;
        let offer = options.offer();
        match offer.answer(&frame.header, frame.depths) {
            Ok((agreed, depths)) => Ok(IwarpRequest { socket, tap, peer, options, frame, agreed, depths }),
            Err(error) => {
                let octets = offer.reply(&frame.header, true, offer.rejection(frame.depths), &[])?;
                send_last(&mut socket, &mut tap, &octets, options.request_timeout).await?;
                Err(error.into())
            }
        }
    }
}

/// An MPA request. Dropping it closes the TCP connection without a reply.
#[derive(Debug)]
pub struct IwarpRequest {
    socket: TcpStream,
    tap: Tap,
    peer: SocketAddr,
    options: IwarpOptions,
    frame: Frame,
    agreed: Agreed,
    depths: ReadDepths,
}

impl IwarpRequest {
    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the peer's private data, without the IRD and ORD words.
    #[must_use]
    pub fn private_data(&self) -> &Bytes {
        &self.frame.private_data
    }

    /// Accepts the connection and sends private data of at most 196 octets. `receive_size` is the maximum
    /// length of a received Send, in octets.
    ///
    /// # Errors
    /// [`IwarpError`]. The connection is then closed.
    pub async fn accept(
        mut self,
        private_data: &[u8],
        receive_size: u32,
    ) -> Result<IwarpConnection, IwarpError> {
        let octets = self.options.offer().reply(&self.frame.header, false, self.depths, private_data)?;
        if has_more(&self.socket, &mut self.tap)? {
            return Err(IwarpError::EarlyData);
        }
        self.tap.sending(&octets);
        let sending = async { Ok(self.socket.write_all(&octets).await?) };
        with_timeout(self.options.request_timeout, "sending the MPA reply", sending).await?;
        let info = info((&self.socket, self.peer), self.frame.private_data, self.agreed, &self.options);
        let IwarpRequest { socket, tap, agreed, options, .. } = self;
        Ok(IwarpConnection::new((socket, tap), Role::Responder, agreed, receive_size, info, &options))
    }

    /// Refuses the connection and sends private data of at most 196 octets.
    ///
    /// # Errors
    /// [`IwarpError`].
    pub async fn reject(mut self, private_data: &[u8]) -> Result<(), IwarpError> {
        let octets = self.options.offer().reply(&self.frame.header, true, self.depths, private_data)?;
        send_last(&mut self.socket, &mut self.tap, &octets, self.options.request_timeout).await
    }
}

#[derive(Debug)]
struct Frame {
    header: FrameHeader,
    depths: Option<ReadDepths>,
    private_data: Bytes,
}

impl Frame {
    /// Reads exactly one frame. Fails at the first octet that differs from the MPA key.
    async fn read(socket: &mut TcpStream, tap: &mut Tap, kind: FrameKind) -> Result<Self, IwarpError> {
        let mut head = [0; mpa::HEADER_LEN];
        let mut filled = 0;
        while let Some(room) = head.get_mut(filled..).filter(|room| !room.is_empty()) {
            match socket.read(room).await? {
                0 => return Err(hangup(tap)),
                count => {
                    tap.received(room.get(..count).unwrap_or_default());
                    filled += count;
                }
            }
            if !kind.may_begin_with(head.get(..filled).unwrap_or_default()) {
                return Err(mpa::MpaError::Key.into());
            }
        }
        // `parse` rejects a length above 512, so the allocation below is bounded.
        let header = FrameHeader::parse(kind, &head)?;
        let mut private_data = vec![0; usize::from(header.private_data_len)];
        match socket.read_exact(&mut private_data).await {
            Ok(_) => tap.received(&private_data),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(hangup(tap)),
            Err(error) => return Err(error.into()),
        }
        if !header.enhanced {
            return Ok(Frame { header, depths: None, private_data: private_data.into() });
        }
        let (depths, rest) = ReadDepths::split(&private_data)?;
        Ok(Frame { header, depths: Some(depths), private_data: Bytes::copy_from_slice(rest) })
    }
}

fn hangup(tap: &mut Tap) -> IwarpError {
    tap.peer_closed();
    IwarpError::Hangup
}

fn has_more(socket: &TcpStream, tap: &mut Tap) -> Result<bool, IwarpError> {
    let mut first = [0];
    match socket.try_read(&mut first) {
        Ok(0) => Err(hangup(tap)),
        Ok(_) => {
            tap.received(&first);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn send_last(
    socket: &mut TcpStream,
    tap: &mut Tap,
    octets: &[u8],
    limit: Duration,
) -> Result<(), IwarpError> {
    let sending = async {
        tap.sending(octets);
        socket.write_all(octets).await?;
        Ok(socket.shutdown().await?)
    };
    with_timeout(limit, "sending the rejection", sending).await
}

async fn with_timeout<T>(
    after: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, IwarpError>>,
) -> Result<T, IwarpError> {
    timeout(after, work).await.unwrap_or(Err(IwarpError::Timeout { what, after }))
}

fn info(
    (socket, peer): (&TcpStream, SocketAddr),
    private_data: Bytes,
    agreed: Agreed,
    options: &IwarpOptions,
) -> ConnectionInfo {
    ConnectionInfo {
        local: socket.local_addr().ok(),
        peer: Some(peer),
        private_data,
        ord: agreed.ord,
        ird: agreed.ird,
        max_region: options.max_region,
        receives: u32::MAX,
        remote_invalidation: true,
        local_fence: true,
    }
}

impl IwarpOptions {
    fn offer(&self) -> Offer {
        Offer { crc: self.crc, markers: self.markers, ird: self.ird, ord: self.ord }
    }
}
