//! The connection configuration protocol (RFC 5666 section 6): the ends of a connection over RPC-over-RDMA tell each other
//! what they take, over the connection itself.
//!
//! RFC 8166 left it out, and the private data of RFC 8797, which is exchanged when a connection is made, says more. It is
//! here for peers that have nothing else.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use rpcrdma_runtime::wire::rpc::{AuthSys, Credential};
//! use rpcrdma_runtime::shell::ClientOptions;
//! use rpcrdma_runtime::{Client, Server};
//! use rpcrdma_services::conf;
//!
//! let server = Server::bind("192.0.2.1:20049").await?.service(conf::server(conf::Flavors::AuthSys));
//!
//! let credential = Credential::Sys(AuthSys { machine_name: "here".into(), ..AuthSys::default() });
//! let options = ClientOptions { credential, ..ClientOptions::default() };
//! let client = Client::connect_with("192.0.2.1:20049", options).await?;
//! let said = conf::configure(&client).await?;
//! # Ok(()) }
//! ```

use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq, vers1};
use rpcrdma_runtime::Client;
use rpcrdma_runtime::proto::program::{AuthStat, CallContext, Caller, Credential, Reject, Unremembered};
use rpcrdma_runtime::proto::rdma::{Link, Stated};
use rpcrdma_runtime::shell::CallError;
use rpcrdma_runtime::wire::rpc::RPCSEC_GSS;

/// Which callers may set what holds on their connection: what is proper depends on who can reach the network (RFC 5666
/// section 11). Others get AUTH_TOOWEAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavors {
    /// Everybody: where the network itself is guarded.
    Any,
    /// Those who say who they are, by AUTH_SYS, and those who show it.
    AuthSys,
    /// Those who show who they are, by RPCSEC_GSS.
    RpcsecGss,
}

impl Flavors {
    fn take(self, credential: &Credential) -> bool {
        match credential {
            Credential::Other { flavor: RPCSEC_GSS, .. } => true,
            Credential::Sys(_) => self != Flavors::RpcsecGss,
            _ => self == Flavors::Any,
        }
    }
}

/// The program as a server mounts it. It answers with what its own end of the caller's connection takes, whatever was
/// asked for, and replies on that connection keep to what the caller says of itself. A call that comes again on another
/// connection runs there.
#[must_use]
pub fn server(flavors: Flavors) -> Unremembered<vers1::Server<Configuration>> {
    Unremembered(vers1::Server(Configuration { flavors }))
}

/// What [`server`] answers.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    flavors: Flavors,
}

impl vers1::Handler for Configuration {
    async fn conf_rdma(
        &self,
        context: &CallContext,
        asked: ConfigRdmaReq,
    ) -> Result<ConfigRdmaReply, Reject> {
        if !self.flavors.take(&context.credential) {
            return Err(Reject::AuthError(AuthStat::TooWeak));
        }
        // Over TCP there is nothing to configure.
        let link = context.extensions.get::<Link>().ok_or(Reject::ProcedureUnavailable)?;
        link.state(Stated { inline: asked.maxreply_sendsize, reads: asked.maxrdmaread });
        let own = link.own();
        Ok(ConfigRdmaReply { maxcall_sendsize: own.inline, align: 0, maxrdmaread: own.reads })
    }
}

/// Tells the server what this end takes, and keeps the client to what the server answers, as long as the connection lasts.
/// It is to be the first call on it, under a security flavor that is proper for the network (RFC 5666 section 11): the
/// client's credential, or what [`configure_by`] is given.
///
/// # Errors
/// [`CallError`]; nothing is changed then. A server without the program is no worse for it: what was agreed on when the
/// connection was made holds.
pub async fn configure(client: &Client) -> Result<Stated, CallError> {
    configure_by(client, client.clone()).await
}

/// The same by a caller over the client that shows more than its credential does: a
/// [`GssClient`](rpcrdma_runtime::shell::GssClient) of it.
///
/// # Errors
/// As [`configure`].
pub async fn configure_by<C>(client: &Client, caller: C) -> Result<Stated, CallError>
where
    C: Caller<vers1::Vers1, Error = CallError>,
{
    let caller = vers1::Client(caller);
    loop {
        let connection = client.connections();
        let own = client.own_limits();
        let asked = ConfigRdmaReq {
            maxcall_sendsize: client.longest_call(),
            maxreply_sendsize: own.inline,
            maxrdmaread: own.reads,
        };
        let reply = caller.conf_rdma(&asked).await?;
        // What one connection was asked for may be answered on the next, whose limits were not known then.
        if client.connections() == connection {
            let server = Stated { inline: reply.maxcall_sendsize, reads: reply.maxrdmaread };
            client.limit(connection, server);
            return Ok(server);
        }
    }
}
