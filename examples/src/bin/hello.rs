//! Runs a server and a client of a generated RPC program in one process:
//! `cargo run -p rpcrdma-examples --bin hello`.
//!
//! The program is the connection configuration protocol of RFC 5666 section 6, from `specs/rdma-conf.txt`.

use std::io::Write;

use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq, vers1};
use rpcrdma_runtime::program::{CallContext, Reject};
use rpcrdma_runtime::{Client, Server};

/// Grants inline calls of at most 4,096 bytes, and at most 16 outstanding Reads.
struct Limits;

impl vers1::Handler for Limits {
    async fn conf_rdma(&self, _: &CallContext, request: ConfigRdmaReq) -> Result<ConfigRdmaReply, Reject> {
        let maxcall_sendsize = request.maxcall_sendsize.min(4096);
        Ok(ConfigRdmaReply { maxcall_sendsize, align: 0, maxrdmaread: request.maxrdmaread.min(16) })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Port 0 selects a free port. The server runs until this process exits.
    let server = Server::bind("127.0.0.1:0").await?.service(vers1::Server(Limits));
    let address = server.local_addr()?;
    tokio::spawn(server.run(std::future::pending()));

    let client = vers1::Client(Client::connect(address).await?);
    let request = ConfigRdmaReq { maxcall_sendsize: 65_536, maxreply_sendsize: 65_536, maxrdmaread: 64 };
    let reply = client.conf_rdma(&request).await?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "requested calls of {} bytes, granted {}",
        request.maxcall_sendsize, reply.maxcall_sendsize
    )?;
    writeln!(out, "requested {} outstanding Reads, granted {}", request.maxrdmaread, reply.maxrdmaread)?;
    Ok(())
}
