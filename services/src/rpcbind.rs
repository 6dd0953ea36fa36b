//! A client for rpcbind (RFC 1833). Servers register with the rpcbind of their machine, and clients look up
//! addresses there.
//!
//! ```no_run
//! # async fn example(
//! #     services: rpcrdma_runtime::Services,
//! #     stop: impl Future<Output = ()>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use rpcrdma_runtime::{Client, Server};
//! use rpcrdma_services::rpcbind::{Netid, Rpcbind};
//!
//! // On the server:
//! let server = Server::bind("192.0.2.1:0").await?.services(services.clone());
//! let address = server.local_addr()?;
//! let rpcbind = Rpcbind::local().await?;
//! let registered = rpcbind.register(&services, Netid::rdma(address.ip()), address).await?;
//! server.run(stop).await?;
//! registered.remove().await?;
//!
//! // On the client:
//! let rpcbind = Rpcbind::of("192.0.2.1").await?;
//! if let Some(address) = rpcbind.lookup(100_003, 3, Netid::Rdma).await? {
//!     let client = Client::connect(address).await?;
//! }
//! # Ok(()) }
//! ```
//!
//! Lookups on another machine use TCP. By default, an rpcbind accepts registrations only from its own
//! machine. Linux's rpcbind accepts them only over its local socket, unless the option `-i` permits
//! registrations from any host. [`Rpcbind::local`] finds this socket.

mod address;
mod error;
#[cfg(unix)]
mod local;
mod netid;
mod registration;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(unix)]
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_rpcbind::{RPCB_PORT, RpListElement, Rpcb, rpcbvers, rpcbvers4};
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{Binding, CallFuture, CallTransport, Caller, Procedure, Program};
use rpcrdma_runtime::wire::rpc::ReplyError;
use rpcrdma_runtime::xdr::XdrString;
use rpcrdma_runtime::{CallError, TcpClient, TcpClientOptions, TcpOptions, ToAddress};
use tokio::net::lookup_host;

pub use address::{from_universal, to_universal};
pub use error::RpcbindError;
pub use netid::Netid;
pub use registration::Registration;

/// The well-known port of rpcbind.
#[allow(clippy::cast_possible_truncation, reason = "the port is 111")]
pub const PORT: u16 = RPCB_PORT as u16;

/// The maximum length of a reply in bytes, enough for thousands of registrations.
const MAX_REPLY: usize = 1 << 20;

const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The usual paths of rpcbind's local socket.
#[cfg(unix)]
const SOCKETS: [&str; 2] = ["/run/rpcbind.sock", "/var/run/rpcbind.sock"];

/// A connection to an rpcbind. Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use rpcrdma_services::rpcbind::{Netid, Rpcbind};
///
/// let rpcbind = Rpcbind::of("192.0.2.1").await?;
/// match rpcbind.lookup(100_003, 3, Netid::Rdma).await? {
///     Some(address) => println!("NFS version 3 over RDMA at {address}"),
///     None => println!("not registered"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rpcbind {
    transport: Transport,
    owner: String,
}

#[derive(Clone, Debug)]
enum Transport {
    Tcp(TcpClient),
    #[cfg(unix)]
    Local(Arc<local::Local>),
}

impl CallTransport for Transport {
    type Error = CallError;
}

impl<P: Program> Caller<P> for Transport {
    fn call<'a, Q: Procedure<Program = P>>(&'a self, args: &'a Q::Args) -> CallFuture<'a, Q::Res, CallError> {
        match self {
            Transport::Tcp(client) => client.call::<Q>(args),
            #[cfg(unix)]
            Transport::Local(client) => Box::pin(client.call::<Q>(args)),
        }
    }
}

impl Transport {
    /// Returns the address of rpcbind's host, which can replace the unspecified `address` in a reply. For the
    /// local socket, returns the loopback address of the same family as `address`.
    fn host(&self, address: &SocketAddr) -> SocketAddr {
        match self {
            Transport::Tcp(client) => client.peer(),
            #[cfg(unix)]
            Transport::Local(_) if address.is_ipv6() => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
            #[cfg(unix)]
            Transport::Local(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        }
    }

    /// Returns the netid of this transport, or `None` for the local socket.
    fn netid(&self) -> Option<Netid> {
        match self {
            Transport::Tcp(client) => Some(Netid::tcp(client.peer().ip())),
            #[cfg(unix)]
            Transport::Local(_) => None,
        }
    }
}

impl Rpcbind {
    /// Connects to the rpcbind of this machine: over its local socket if possible, otherwise over TCP.
    ///
    /// # Errors
    /// Returns [`RpcbindError::Connect`] if connecting fails.
    pub async fn local() -> Result<Self, RpcbindError> {
        #[cfg(unix)]
        for path in SOCKETS {
            if let Ok(rpcbind) = Rpcbind::at_socket(path).await {
                return Ok(rpcbind);
            }
        }
        Rpcbind::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))).await
    }

    /// Connects to the rpcbind that listens on this local socket.
    ///
    /// # Errors
    /// Returns the system's error if the connection cannot be established.
    #[cfg(unix)]
    pub async fn at_socket(path: impl AsRef<std::path::Path>) -> std::io::Result<Self> {
        let local = local::Local::connect(path.as_ref(), CALL_TIMEOUT).await?;
        Ok(Rpcbind { transport: Transport::Local(Arc::new(local)), owner: String::new() })
    }

    /// Connects to the rpcbind of a host over TCP.
    ///
    /// # Errors
    /// Returns [`RpcbindError::Connect`] if connecting fails.
    pub async fn of(host: &str) -> Result<Self, RpcbindError> {
        Rpcbind::connect(at(host, PORT)).await
    }

    /// Connects to the rpcbind at this address and port over TCP.
    ///
    /// # Errors
    /// Returns [`RpcbindError::Connect`] if connecting fails.
    pub async fn connect(address: impl ToAddress) -> Result<Self, RpcbindError> {
        Ok(Rpcbind::over(connect(address).await?))
    }

    /// Returns an `Rpcbind` that uses an existing client, for example with other timeouts or a credential.
    #[must_use]
    pub fn over(client: TcpClient) -> Self {
        Rpcbind { transport: Transport::Tcp(client), owner: String::new() }
    }

    /// Sets the owner of registrations. Most rpcbind implementations determine the owner themselves and
    /// ignore this value.
    #[must_use]
    pub fn owned_by(self, owner: impl Into<String>) -> Self {
        Rpcbind { owner: owner.into(), ..self }
    }

    /// Looks up the address of a program version for a transport. Returns `None` if the version is not
    /// registered. However, if `netid` is the transport of this connection, an rpcbind without protocol
    /// version 4 may return the address of another program version.
    ///
    /// If the registered IP address is unspecified, the result contains rpcbind's IP address, provided that
    /// the two addresses have the same family.
    ///
    /// # Errors
    /// Returns [`RpcbindError::Call`] if the call fails, and [`RpcbindError::BadAddress`] if the address in
    /// the reply is invalid.
    pub async fn lookup(
        &self,
        program: u32,
        version: u32,
        netid: Netid,
    ) -> Result<Option<SocketAddr>, RpcbindError> {
        let found = if self.transport.netid() == Some(netid) {
            self.address(program, version, netid).await?
        } else {
            self.listed(program, version, netid).await?
        };
        found.map(|address| self.reachable(&address, netid)).transpose()
    }

    /// Registers all programs of `services` at `address` for the transport `netid`.
    ///
    /// # Errors
    /// Returns [`RpcbindError::Call`] if a call fails, and [`RpcbindError::Refused`] if rpcbind refuses a
    /// registration. On error, this method tries to remove the registrations that it has made.
    pub async fn register(
        &self,
        services: &Services,
        netid: Netid,
        address: SocketAddr,
    ) -> Result<Registration, RpcbindError> {
        let mut registered = Registration::new(self.clone(), netid, &address);
        for (program, version) in services.programs() {
            if let Err(error) = registered.add(program, version).await {
                // The first error is more useful than a second error from the removal.
                let _ = registered.remove().await;
                return Err(error);
            }
        }
        Ok(registered)
    }

    /// Like [`Rpcbind::register`], but replaces existing registrations. The replaced registrations may belong
    /// to a server that has crashed or to one that is still running.
    ///
    /// # Errors
    /// See [`Rpcbind::register`].
    pub async fn replace(
        &self,
        services: &Services,
        netid: Netid,
        address: SocketAddr,
    ) -> Result<Registration, RpcbindError> {
        for (program, version) in services.programs() {
            let entry = self.entry(program, version, netid, String::new());
            // The boolean result is ignored, so the call may be retransmitted. If rpcbind refuses the
            // removal, it also refuses the registration below.
            self.rpcbvers().unset(&entry).await?;
        }
        self.register(services, netid, address).await
    }

    fn entry(&self, program: u32, version: u32, netid: Netid, address: String) -> Rpcb {
        Rpcb {
            r_prog: program,
            r_vers: version,
            r_netid: XdrString::from(netid.as_str()),
            r_addr: address.into(),
            r_owner: XdrString::from(self.owner.as_str()),
        }
    }

    /// Looks up an address for the transport of this connection. rpcbind uses the transport of the call and
    /// ignores the netid in the arguments (RFC 1833 section 2.2.1).
    async fn address(
        &self,
        program: u32,
        version: u32,
        netid: Netid,
    ) -> Result<Option<XdrString>, RpcbindError> {
        let entry = self.entry(program, version, netid, String::new());
        let found = match self.rpcbvers4().getversaddr(&entry).await {
            Err(error) if has_only_version_3(&error) => self.rpcbvers().getaddr(&entry).await?,
            other => other?,
        };
        Ok(Some(found).filter(|address| !address.is_empty()))
    }

    /// Looks up an address in the list of all registrations. `netid` may differ from the netid of this
    /// connection.
    async fn listed(
        &self,
        program: u32,
        version: u32,
        netid: Netid,
    ) -> Result<Option<XdrString>, RpcbindError> {
        let matches = |map: &Rpcb| {
            map.r_prog == program && map.r_vers == version && &map.r_netid[..] == netid.as_str().as_bytes()
        };
        Ok(self.list().await?.into_iter().find(matches).map(|map| map.r_addr))
    }

    async fn list(&self) -> Result<Vec<Rpcb>, RpcbindError> {
        let list = match self.rpcbvers4().dump().await {
            Err(error) if has_only_version_3(&error) => self.rpcbvers().dump().await?,
            other => other?,
        };
        Ok(list.0.into_iter().map(|RpListElement { rpcb_map }| rpcb_map).collect())
    }

    fn rpcbvers4(&self) -> rpcbvers4::Client<Transport> {
        rpcbvers4::Client(self.transport.clone())
    }

    fn rpcbvers(&self) -> rpcbvers::Client<Transport> {
        rpcbvers::Client(self.transport.clone())
    }

    /// Returns a client without retransmission, for calls whose result would differ if they ran twice.
    fn without_retransmission(&self) -> rpcbvers::Client<Transport> {
        rpcbvers::Client(match &self.transport {
            Transport::Tcp(client) => Transport::Tcp(client.without_retransmission()),
            #[cfg(unix)]
            local @ Transport::Local(_) => local.clone(),
        })
    }

    fn reachable(&self, universal: &XdrString, netid: Netid) -> Result<SocketAddr, RpcbindError> {
        universal
            .to_str()
            .ok()
            .and_then(from_universal)
            .map(|address| {
                let mut host = self.transport.host(&address);
                host.set_port(address.port());
                let use_host = address.ip().is_unspecified() && host.is_ipv4() == address.is_ipv4();
                if use_host { host } else { address }
            })
            .filter(|address| {
                netid.matches(address) && address.port() != 0 && !is_shared_address(address.ip())
            })
            .ok_or_else(|| {
                let shown = universal.get(..80).unwrap_or(universal);
                let address = String::from_utf8_lossy(shown).into_owned();
                RpcbindError::BadAddress { address, netid }
            })
    }
}

/// Finds the RPC-over-RDMA address of a program on a host. Uses the well-known port of the program, if any
/// (20049 for NFS). Otherwise asks the rpcbind of the host, and returns `None` if the program is not
/// registered.
///
/// # Errors
/// Returns [`RpcbindError`] if the host name cannot be resolved or if the lookup fails.
pub async fn find<P: Binding>(host: &str) -> Result<Option<SocketAddr>, RpcbindError> {
    if let Some(port) = P::PORT {
        let resolved = lookup_host(at(host, port)).await;
        let unresolved = |source| RpcbindError::Resolve { host: host.to_owned(), source };
        return Ok(resolved.map_err(unresolved)?.next());
    }
    let client = connect(at(host, PORT)).await?;
    let netid = Netid::rdma(client.peer().ip());
    Rpcbind::over(client).lookup(P::NUMBER, P::VERSION, netid).await
}

async fn connect(address: impl ToAddress) -> Result<TcpClient, RpcbindError> {
    let connect_timeout = Duration::from_secs(5);
    let tcp = TcpOptions { max_record: MAX_REPLY, connect_timeout, ..TcpOptions::default() };
    let options = TcpClientOptions { tcp, timeout: CALL_TIMEOUT, ..TcpClientOptions::default() };
    Ok(TcpClient::connect_with(address, options).await?)
}

/// Returns `HOST:PORT`, with brackets around an IPv6 address.
fn at(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => format!("{host}:{port}"),
    }
}

fn is_shared_address(ip: IpAddr) -> bool {
    // The checks also apply to IPv4-mapped IPv6 addresses.
    let ip = ip.to_canonical();
    ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) || ip.is_unspecified()
}

fn has_only_version_3(error: &CallError) -> bool {
    matches!(error, CallError::Rejected(ReplyError::ProgramMismatch { low: ..=3, high: 3 }))
}
