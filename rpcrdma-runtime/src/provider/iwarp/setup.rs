//! Connections: TCP, then the MPA request and reply (RFC 5044 section 7.1, RFC 6581).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::time::timeout;

use super::{IwarpConnection, Options};
use crate::proto::iwarp::{Role, Settings};
use crate::provider::ConnectionInfo;
use crate::wire::iwarp::{Enhanced, Frame, HEAD_LEN, Head, Kind, MAX_DEPTH, MpaError};

const REVISION: u8 = 2;
/// Private data that any peer takes: Linux's siw keeps the length of its own in an octet.
const MAX_OURS: usize = 196;

/// Why no iWARP connection was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// TCP failed, or ended in the middle of the set-up.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer took too long.
    #[error("no {what} within {limit:?}")]
    Timeout {
        /// For what.
        what: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The peer does not speak MPA as it should.
    #[error(transparent)]
    Mpa(#[from] MpaError),
    /// The responder refused: its private data.
    #[error("the peer refused the connection")]
    Rejected(Bytes),
    /// The peer wants what is not supported: in words.
    #[error("{0}")]
    Unsupported(&'static str),
    /// More private data was given than every peer takes.
    #[error("private data of {0} octets is more than 196")]
    PrivateData(usize),
}

async fn within<T>(
    limit: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    timeout(limit, work).await.unwrap_or(Err(ConnectError::Timeout { what, limit }))
}

/// Connects to a responder. `receive_size` is the largest Send that will be received, in bytes.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    address: SocketAddr,
    private_data: &[u8],
    receive_size: u32,
    options: &Options,
) -> Result<IwarpConnection, ConnectError> {
    check_private_data(private_data)?;
    let tcp = async { Ok(TcpStream::connect(address).await?) };
    let mut tcp = within(options.connect_timeout, "TCP connection", tcp).await?;
    tcp.set_nodelay(true)?;
    let request = Frame {
        kind: Kind::Request,
        markers: false,
        crc: options.crc,
        reject: false,
        revision: REVISION,
        enhanced: Some(words(options.reads_in, options.reads_out)),
        private_data: Bytes::copy_from_slice(private_data),
    };
    let exchange = async {
        tcp.write_all(&request.encode()).await?;
        read_frame(&mut tcp, Kind::Reply).await
    };
    let reply = within(options.connect_timeout, "MPA reply", exchange).await?;
    if reply.reject {
        return Err(ConnectError::Rejected(reply.private_data));
    }
    if reply.markers {
        return Err(ConnectError::Unsupported("the peer wants MPA markers, which are not supported"));
    }
    // A plain reply says nothing of depths: one Read at a time is what every peer can do.
    let (reads_in, reads_out) = match reply.enhanced {
        Some(theirs) => (options.reads_in.min(depth(theirs.ord)), options.reads_out.min(depth(theirs.ird))),
        None => (1, 1),
    };
    let settings = Settings {
        role: Role::Initiator,
        // Either end can have them (RFC 5044 section 7.1).
        crc: options.crc || reply.crc,
        max_ulpdu: max_ulpdu(&tcp, options),
        receive_size: size(receive_size),
        reads_out: u32::from(reads_out),
        // What the peer says it will do is no promise: as many are served as were offered.
        reads_in: u32::from(options.reads_in.max(reads_in)),
    };
    Ok(connection(tcp, reply.private_data, settings, options))
}

/// Takes connections.
pub struct Listener {
    tcp: TcpListener,
    receive_size: u32,
    options: Options,
}

impl Listener {
    /// Binds an address. `receive_size` is the largest Send that connections will receive, in bytes.
    ///
    /// # Errors
    /// What the system says.
    pub async fn bind(address: impl ToSocketAddrs, receive_size: u32, options: Options) -> io::Result<Self> {
        Ok(Listener { tcp: TcpListener::bind(address).await?, receive_size, options })
    }

    /// The address that is bound.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The next TCP connection. Nothing was read from it: [`Incoming::request`] waits for that, and belongs on a
    /// task of its own, so that a silent peer holds up nobody.
    ///
    /// # Errors
    /// What the system says.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (tcp, peer) = self.tcp.accept().await?;
        tcp.set_nodelay(true)?;
        Ok(Incoming { tcp, peer, receive_size: self.receive_size, options: self.options })
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.tcp.local_addr().ok()).finish()
    }
}

/// A TCP connection whose peer has not spoken yet.
#[derive(Debug)]
pub struct Incoming {
    tcp: TcpStream,
    peer: SocketAddr,
    receive_size: u32,
    options: Options,
}

impl Incoming {
    /// The peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Waits for the whole MPA request.
    ///
    /// # Errors
    /// [`ConnectError`]; the TCP connection is closed then. A peer that speaks MPA but wants what is not supported
    /// is told so.
    pub async fn request(mut self) -> Result<Request, ConnectError> {
        let limit = self.options.request_timeout;
        let frame = within(limit, "MPA request", read_frame(&mut self.tcp, Kind::Request)).await?;
        let unsupported = if frame.markers {
            Some("the peer wants MPA markers, which are not supported")
        } else if frame.reject {
            Some("the request has the reject flag")
        } else {
            None
        };
        let request = Request { incoming: self, frame };
        match unsupported {
            Some(why) => {
                request.reject(&[]).await?;
                Err(ConnectError::Unsupported(why))
            }
            None => Ok(request),
        }
    }
}

/// A connection that a peer asks for.
#[derive(Debug)]
pub struct Request {
    incoming: Incoming,
    frame: Frame,
}

impl Request {
    /// The peer's private data.
    #[must_use]
    pub fn private_data(&self) -> &Bytes {
        &self.frame.private_data
    }

    /// The peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.incoming.peer
    }

    /// Accepts it.
    ///
    /// # Errors
    /// [`ConnectError`]; also if the peer has sent anything behind its request already.
    pub async fn accept(self, private_data: &[u8]) -> Result<IwarpConnection, ConnectError> {
        check_private_data(private_data)?;
        let Request { mut incoming, frame } = self;
        let options = incoming.options;
        if incoming.tcp.try_read(&mut [0]).is_ok_and(|len| len > 0) {
            return Err(ConnectError::Unsupported("the peer sent data before the MPA reply"));
        }
        let theirs = frame.enhanced;
        // The IRD that is said is what the peer may make of us; the ORD, what we will make of it.
        let reads_in = theirs.map_or(1, |theirs| options.reads_in.min(depth(theirs.ord)));
        let reads_out = theirs.map_or(1, |theirs| options.reads_out.min(depth(theirs.ird)));
        let reply = reply_frame(&frame, options.crc, reads_in, reads_out, private_data);
        let write = async { Ok(incoming.tcp.write_all(&reply.encode()).await?) };
        within(options.request_timeout, "room for the MPA reply", write).await?;
        let settings = Settings {
            role: Role::Responder,
            crc: reply.crc,
            max_ulpdu: max_ulpdu(&incoming.tcp, &options),
            receive_size: size(incoming.receive_size),
            reads_out: u32::from(reads_out),
            reads_in: u32::from(reads_in),
        };
        Ok(connection(incoming.tcp, frame.private_data, settings, &options))
    }

    /// Refuses it.
    ///
    /// # Errors
    /// [`ConnectError`], if even that cannot be said.
    pub async fn reject(self, private_data: &[u8]) -> Result<(), ConnectError> {
        check_private_data(private_data)?;
        let Request { mut incoming, frame } = self;
        let reply = Frame { reject: true, ..reply_frame(&frame, false, 0, 0, private_data) };
        let write = async {
            incoming.tcp.write_all(&reply.encode()).await?;
            Ok(incoming.tcp.shutdown().await?)
        };
        within(incoming.options.request_timeout, "room for the MPA reply", write).await
    }
}

/// An enhanced request gets an enhanced reply, a plain one a plain one (RFC 6581 section 6).
fn reply_frame(request: &Frame, crc: bool, reads_in: u16, reads_out: u16, private_data: &[u8]) -> Frame {
    let enhanced = request.enhanced.map(|theirs| {
        let mut ours = words(reads_in, reads_out);
        if theirs.peer_to_peer {
            // The initiator will open with a zero-length Write, which is taken like any other.
            ours.peer_to_peer = true;
            ours.ready_to_receive = [false, theirs.ready_to_receive[1], !theirs.ready_to_receive[1]];
        }
        ours
    });
    Frame {
        kind: Kind::Reply,
        markers: false,
        crc: crc || request.crc,
        reject: false,
        revision: request.revision.min(REVISION),
        enhanced,
        private_data: Bytes::copy_from_slice(private_data),
    }
}

fn words(ird: u16, ord: u16) -> Enhanced {
    Enhanced { ird: depth(ird), ord: depth(ord), peer_to_peer: false, ready_to_receive: [false; 3] }
}

/// A depth as it can be said. 0x3fff, "not negotiated", counts as the largest.
fn depth(depth: u16) -> u16 {
    depth.min(MAX_DEPTH)
}

fn size(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn check_private_data(private_data: &[u8]) -> Result<(), ConnectError> {
    if private_data.len() > MAX_OURS { Err(ConnectError::PrivateData(private_data.len())) } else { Ok(()) }
}

async fn read_frame(tcp: &mut TcpStream, kind: Kind) -> Result<Frame, ConnectError> {
    let mut head = [0; HEAD_LEN];
    // What does not begin like MPA is not waited for to the end.
    tcp.read_exact(&mut head).await?;
    let head = Head::decode(kind, &head)?;
    let mut private_data = vec![0; head.private_data_len()];
    tcp.read_exact(&mut private_data).await?;
    Ok(head.with_private_data(kind, &private_data)?)
}

/// Length field, padding and CRC of an FPDU.
const FPDU_OVERHEAD: u32 = 2 + 3 + 4;
/// The least ULPDU that a sender must be able to make (RFC 5044 section 4.1).
const MIN_ULPDU: u32 = 128;
/// Taken where the system does not say how large the connection's segments are.
const FALLBACK_SEGMENT: u32 = 1436;

fn max_ulpdu(tcp: &TcpStream, options: &Options) -> usize {
    let segment = options
        .max_fpdu
        .map(u32::from)
        .or_else(|| socket2::SockRef::from(tcp).tcp_mss().ok())
        .unwrap_or(FALLBACK_SEGMENT);
    size(segment.min(u32::from(u16::MAX)).saturating_sub(FPDU_OVERHEAD).max(MIN_ULPDU))
}

fn connection(tcp: TcpStream, private_data: Bytes, settings: Settings, options: &Options) -> IwarpConnection {
    let info = ConnectionInfo {
        peer: tcp.peer_addr().ok(),
        private_data,
        reads_out: settings.reads_out,
        reads_in: settings.reads_in,
        max_region: u32::MAX,
    };
    IwarpConnection::new(tcp, info, settings, options)
}
