//! The connection configuration protocol (RFC 5666 section 6). The client and the server of an RPC-over-RDMA
//! connection exchange their limits over the connection itself.
//!
//! RFC 8166 omits this protocol. Peers usually announce their inline limits in the private data of the
//! handshake (RFC 8797). Use this protocol only for peers without such private data.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use rpcrdma_runtime::program::{AuthSys, Credential};
//! use rpcrdma_runtime::{Client, ClientOptions, Server};
//! use rpcrdma_services::conf;
//!
//! let server = Server::bind("192.0.2.1:20049").await?.service(conf::server(conf::Flavors::AuthSys));
//!
//! let credential = Credential::Sys(AuthSys { machine_name: "here".into(), ..AuthSys::default() });
//! let options = ClientOptions { credential, ..ClientOptions::default() };
//! let client = Client::connect_with("192.0.2.1:20049", options).await?;
//! let server_limits = conf::configure(&client).await?;
//! # Ok(()) }
//! ```

use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq, vers1};
use rpcrdma_runtime::program::{AuthStat, CallContext, Caller, Credential, Reject, Uncached};
use rpcrdma_runtime::wire::rpc::RPCSEC_GSS;
use rpcrdma_runtime::{CallError, Client, Link, PeerLimits};

/// The security flavors that a client may use to configure its connection. The server rejects weaker flavors
/// with AUTH_TOOWEAK, and flavors that it does not support with AUTH_REJECTEDCRED.
///
/// The right choice depends on who can access the network (RFC 5666 section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavors {
    /// Any flavor that the server supports. Only for networks with restricted access.
    Any,
    /// AUTH_SYS and RPCSEC_GSS.
    AuthSys,
    /// Only RPCSEC_GSS.
    RpcsecGss,
}

impl Flavors {
    fn allow(self, credential: &Credential) -> bool {
        match credential {
            Credential::Other { flavor: RPCSEC_GSS, .. } => true,
            Credential::Sys(_) => self != Flavors::RpcsecGss,
            _ => self == Flavors::Any,
        }
    }
}

/// Returns the configuration service, for use with `Server::service`.
///
/// The reply contains the server's limits for the connection, regardless of the arguments. Later replies on
/// the connection respect the client's limits. A call that is retransmitted on another connection runs again
/// there.
#[must_use]
pub fn server(flavors: Flavors) -> Uncached<vers1::Server<Configuration>> {
    Uncached(vers1::Server(Configuration { flavors }))
}

/// The handler of the service that [`server`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    flavors: Flavors,
}

impl vers1::Handler for Configuration {
    async fn conf_rdma(
        &self,
        context: &CallContext,
        request: ConfigRdmaReq,
    ) -> Result<ConfigRdmaReply, Reject> {
        if !self.flavors.allow(&context.credential) {
            return Err(Reject::AuthError(AuthStat::TooWeak));
        }
        // TCP connections have no `Link`, because these limits apply only to RDMA.
        let link = context.extensions.get::<Link>().ok_or(Reject::ProcedureUnavailable)?;
        link.announce(PeerLimits { inline: request.maxreply_sendsize, reads: request.maxrdmaread });
        let own = link.own();
        Ok(ConfigRdmaReply { maxcall_sendsize: own.inline, align: 0, maxrdmaread: own.reads })
    }
}

/// Sends the client's limits to the server, and applies the server's limits to the client for the rest of the
/// connection. Returns the server's limits.
///
/// This must be the first call on a connection. The call uses the client's credential. For RPCSEC_GSS, use
/// [`configure_by`]. The flavor must be adequate for the network (RFC 5666 section 11).
///
/// # Errors
/// Returns [`CallError`] if the call fails, for example if the server does not provide the program. After an
/// error, the client keeps the limits from the handshake.
pub async fn configure(client: &Client) -> Result<PeerLimits, CallError> {
    configure_by(client, client.clone()).await
}

/// Like [`configure`], but makes the call through `caller`, for example a
/// [`GssClient`](rpcrdma_runtime::GssClient) of the same client.
///
/// # Errors
/// See [`configure`].
pub async fn configure_by<C>(client: &Client, caller: C) -> Result<PeerLimits, CallError>
where
    C: Caller<vers1::Vers1, Error = CallError>,
{
    let caller = vers1::Client(caller);
    loop {
        let connection = client.connections();
        let own = client.own_limits();
        let request = ConfigRdmaReq {
            maxcall_sendsize: client.longest_call(),
            maxreply_sendsize: own.inline,
            maxrdmaread: own.reads,
        };
        let reply = caller.conf_rdma(&request).await?;
        // If the client reconnected during the call, the request contained the limits of the previous
        // connection, so the call is repeated.
        if client.connections() == connection {
            let server = PeerLimits { inline: reply.maxcall_sendsize, reads: reply.maxrdmaread };
            client.set_peer_limits(connection, server);
            return Ok(server);
        }
    }
}
