//! How a server is found: it registers with the rpcbind of its machine, and clients ask that (RFC 1833).
//!
//! ```no_run
//! # async fn example(
//! #     services: rpcrdma_runtime::proto::rpc::Services,
//! #     stop: impl Future<Output = ()>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use rpcrdma_runtime::{Client, Server};
//! use rpcrdma_services::rpcbind::{Netid, Rpcbind};
//!
//! // The server's machine.
//! let server = Server::bind("192.0.2.1:0").await?.services(services.clone());
//! let address = server.local_addr()?;
//! let rpcbind = Rpcbind::local().await?;
//! let registered = rpcbind.register(&services, Netid::rdma(address.ip()), address).await?;
//! server.run(stop).await?;
//! registered.remove().await?;
//!
//! // The client's.
//! let rpcbind = Rpcbind::of("192.0.2.1").await?;
//! if let Some(address) = rpcbind.lookup(100_003, 3, Netid::Rdma).await? {
//!     let client = Client::connect(address).await?;
//! }
//! # Ok(()) }
//! ```
//!
//! rpcbind itself is asked over TCP. It takes registrations from its own machine only, and many (Linux's, unless it was
//! started with `-i`) from their local socket only: [`Rpcbind::local`] finds it.

mod address;
mod error;
#[cfg(unix)]
mod local;
mod netid;
mod registration;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(unix)]
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_rpcbind::{RPCB_PORT, RpListElement, Rpcb, rpcbvers, rpcbvers4};
use rpcrdma_runtime::proto::program::{Binding, Caller, Procedure, Program};
use rpcrdma_runtime::proto::rpc::Services;
use rpcrdma_runtime::shell::{CallError, TcpClient, TcpClientOptions, TcpOptions};
use rpcrdma_runtime::wire::rpc::ReplyError;
use rpcrdma_runtime::xdr::XdrString;
use tokio::net::{ToSocketAddrs, lookup_host};

pub use address::{from_universal, to_universal};
pub use error::Error;
pub use netid::Netid;
pub use registration::Registration;

/// The port of every rpcbind.
#[allow(clippy::cast_possible_truncation, reason = "111")]
pub const PORT: u16 = RPCB_PORT as u16;

/// The longest answer that is taken, in bytes: thousands of registrations.
const LONGEST: usize = 1 << 20;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where rpcbinds have their local sockets.
#[cfg(unix)]
const SOCKETS: [&str; 2] = ["/run/rpcbind.sock", "/var/run/rpcbind.sock"];

/// A connection to an rpcbind. Clones share it.
#[derive(Clone, Debug)]
pub struct Rpcbind {
    way: Way,
    owner: String,
}

/// How an rpcbind is reached.
#[derive(Clone, Debug)]
enum Way {
    Tcp(TcpClient),
    #[cfg(unix)]
    Local(Arc<local::Local>),
}

impl<P: Program> Caller<P> for Way {
    type Error = CallError;

    async fn call<Q: Procedure<Program = P>>(&self, args: &Q::Args) -> Result<Q::Res, CallError> {
        match self {
            Way::Tcp(client) => client.call::<Q>(args).await,
            #[cfg(unix)]
            Way::Local(client) => client.call::<Q>(args).await,
        }
    }
}

impl Way {
    /// Where the host is, for an address that stands for all of its addresses.
    fn host(&self, address: &SocketAddr) -> SocketAddr {
        match self {
            Way::Tcp(client) => client.peer(),
            #[cfg(unix)]
            Way::Local(_) if address.is_ipv6() => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
            #[cfg(unix)]
            Way::Local(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        }
    }

    /// The transport, if registrations have a netid for it.
    fn netid(&self) -> Option<Netid> {
        match self {
            Way::Tcp(client) => Some(Netid::tcp(client.peer().ip())),
            #[cfg(unix)]
            Way::Local(_) => None,
        }
    }
}

impl Rpcbind {
    /// The rpcbind of this machine, which servers register with: over its local socket if it has one, and else over TCP.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn local() -> Result<Self, Error> {
        #[cfg(unix)]
        for path in SOCKETS {
            if let Ok(rpcbind) = Rpcbind::at_socket(path).await {
                return Ok(rpcbind);
            }
        }
        Rpcbind::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))).await
    }

    /// One with its local socket elsewhere.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(unix)]
    pub async fn at_socket(path: impl AsRef<std::path::Path>) -> std::io::Result<Self> {
        let local = local::Local::connect(path.as_ref(), PATIENCE).await?;
        Ok(Rpcbind { way: Way::Local(Arc::new(local)), owner: String::new() })
    }

    /// The rpcbind of a host, which clients ask.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn of(host: &str) -> Result<Self, Error> {
        Rpcbind::connect(at(host, PORT)).await
    }

    /// One at another port.
    ///
    /// # Errors
    /// [`Error::Connect`].
    pub async fn connect(address: impl ToSocketAddrs + fmt::Display) -> Result<Self, Error> {
        Ok(Rpcbind::over(connect(address).await?))
    }

    /// Over a connection that is there: with other times, or with a credential.
    #[must_use]
    pub fn over(client: TcpClient) -> Self {
        Rpcbind { way: Way::Tcp(client), owner: String::new() }
    }

    /// The same with a name for whom registrations belong to. Most rpcbinds know it better, and put in their own.
    #[must_use]
    pub fn owned_by(self, owner: impl Into<String>) -> Self {
        Rpcbind { owner: owner.into(), ..self }
    }

    /// Where a program version is served over a transport; nothing if it is not registered. An address that stands for
    /// every address of the host is answered as the one that rpcbind was reached at.
    ///
    /// # Errors
    /// [`Error::Call`]; [`Error::BadAddress`] if the answer is nothing to connect to.
    pub async fn lookup(
        &self,
        program: u32,
        version: u32,
        netid: Netid,
    ) -> Result<Option<SocketAddr>, Error> {
        let found = if self.way.netid() == Some(netid) {
            self.address(program, version, netid).await?
        } else {
            self.listed(program, version, netid).await?
        };
        found.map(|address| self.reachable(&address, netid)).transpose()
    }

    /// Registers every program of `services` at an address over a transport.
    ///
    /// # Errors
    /// [`Error::Call`]; [`Error::Refused`] if one of them has a registration there already. Then none of them is left
    /// registered by this.
    pub async fn register(
        &self,
        services: &Services,
        netid: Netid,
        address: SocketAddr,
    ) -> Result<Registration, Error> {
        let mut registered = Registration::new(self.clone(), netid, &address);
        for (program, version) in services.programs() {
            if let Err(error) = registered.add(program, version).await {
                // What was refused counts; that the rest cannot be removed either would say less.
                let _ = registered.remove().await;
                return Err(error);
            }
        }
        Ok(registered)
    }

    /// The same in place of what is registered: of a server that went away without a word, or of one that is still
    /// there.
    ///
    /// # Errors
    /// As [`Rpcbind::register`].
    pub async fn replace(
        &self,
        services: &Services,
        netid: Netid,
        address: SocketAddr,
    ) -> Result<Registration, Error> {
        for (program, version) in services.programs() {
            let entry = self.entry(program, version, netid, String::new());
            // Nothing to remove is no failure, so it may be sent again; what cannot be removed makes the registration fail.
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

    /// What rpcbind says when it is asked over the transport that is meant: it goes by how it was reached, and not
    /// by the netid in the question (RFC 1833 section 2.2.1).
    async fn address(&self, program: u32, version: u32, netid: Netid) -> Result<Option<XdrString>, Error> {
        let asked = self.entry(program, version, netid, String::new());
        let found = match self.rpcbvers4().getversaddr(&asked).await {
            Err(error) if is_older(&error) => self.rpcbvers().getaddr(&asked).await?,
            other => other?,
        };
        Ok(Some(found).filter(|address| !address.is_empty()))
    }

    /// What its list says, which has every transport.
    async fn listed(&self, program: u32, version: u32, netid: Netid) -> Result<Option<XdrString>, Error> {
        let is_meant = |map: &Rpcb| {
            map.r_prog == program && map.r_vers == version && &map.r_netid[..] == netid.as_str().as_bytes()
        };
        Ok(self.list().await?.into_iter().find(is_meant).map(|map| map.r_addr))
    }

    /// All registrations.
    async fn list(&self) -> Result<Vec<Rpcb>, Error> {
        let list = match self.rpcbvers4().dump().await {
            Err(error) if is_older(&error) => self.rpcbvers().dump().await?,
            other => other?,
        };
        Ok(list.0.into_iter().map(|RpListElement { rpcb_map }| rpcb_map).collect())
    }

    fn rpcbvers4(&self) -> rpcbvers4::Client<Way> {
        rpcbvers4::Client(self.way.clone())
    }

    fn rpcbvers(&self) -> rpcbvers::Client<Way> {
        rpcbvers::Client(self.way.clone())
    }

    /// For calls whose answer is another one when they are run twice: none is sent again.
    fn once(&self) -> rpcbvers::Client<Way> {
        rpcbvers::Client(match &self.way {
            Way::Tcp(client) => Way::Tcp(client.without_retransmission()),
            #[cfg(unix)]
            local @ Way::Local(_) => local.clone(),
        })
    }

    fn reachable(&self, said: &XdrString, netid: Netid) -> Result<SocketAddr, Error> {
        said.to_str()
            .ok()
            .and_then(from_universal)
            .map(|address| {
                let mut host = self.way.host(&address);
                host.set_port(address.port());
                let is_its = address.ip().is_unspecified() && host.is_ipv4() == address.is_ipv4();
                if is_its { host } else { address }
            })
            .filter(|address| netid.has(address) && address.port() != 0 && !is_of_many(address.ip()))
            .ok_or_else(|| {
                let address = String::from_utf8_lossy(said.get(..80).unwrap_or(said)).into_owned();
                Error::BadAddress { address, netid }
            })
    }
}

/// Where a program is served over RPC-over-RDMA at a host: at its own port if it has one (NFS's is 20049), and else
/// where the host's rpcbind says.
///
/// # Errors
/// [`Error`].
pub async fn find<P: Binding>(host: &str) -> Result<Option<SocketAddr>, Error> {
    if let Some(port) = P::PORT {
        let resolved = lookup_host(at(host, port)).await;
        let unresolved = |source| Error::Resolve { host: host.to_owned(), source };
        return Ok(resolved.map_err(unresolved)?.next());
    }
    let client = connect(at(host, PORT)).await?;
    let netid = Netid::rdma(client.peer().ip());
    Rpcbind::over(client).lookup(P::NUMBER, P::VERSION, netid).await
}

async fn connect(address: impl ToSocketAddrs + fmt::Display) -> Result<TcpClient, Error> {
    let connect_timeout = Duration::from_secs(5);
    let tcp = TcpOptions { max_record: LONGEST, connect_timeout, ..TcpOptions::default() };
    let options = TcpClientOptions { tcp, timeout: PATIENCE, ..TcpClientOptions::default() };
    Ok(TcpClient::connect_with(address, options).await?)
}

/// A host and a port, as names are resolved.
fn at(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) => format!("{host}:{port}"),
    }
}

/// Addresses that nobody is alone at.
fn is_of_many(ip: IpAddr) -> bool {
    // Those of IPv4 that are written as such of IPv6, too.
    let ip = ip.to_canonical();
    ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) || ip.is_unspecified()
}

/// Whether an rpcbind has version 3 only.
fn is_older(error: &CallError) -> bool {
    matches!(error, CallError::Rejected(ReplyError::ProgramMismatch { low: ..=3, high: 3 }))
}
