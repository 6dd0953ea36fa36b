//! The command line of `rpcrdma`.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

/// Shows the RPC-over-RDMA conversations in a capture, and the RDMA devices of this machine.
#[derive(Debug, Parser)]
#[command(name = "rpcrdma", version)]
#[non_exhaustive]
pub struct RpcrdmaArguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: RpcrdmaCommand,
}

/// The commands of `rpcrdma`.
#[derive(Debug, Subcommand)]
pub enum RpcrdmaCommand {
    /// Show the conversations in a capture: calls with their chunks and RDMA operations, replies, and totals
    Explain(Explain),
    /// List the RDMA devices of this machine, and the providers that `auto` selects for addresses
    Info {
        /// Addresses of servers, as HOST:PORT
        addresses: Vec<String>,
    },
}

/// Shows the conversations in a capture: calls with their chunks and RDMA operations, replies, and totals.
///
/// To create a capture, run nfs3 or nfs3d with RPCRDMA_PCAP=FILE, or use tcpdump or Wireshark. The
/// supported file formats are pcap and pcapng.
#[derive(Args, Debug)]
#[non_exhaustive]
pub struct Explain {
    /// The capture file; - means standard input
    pub file: PathBuf,
    /// Show only the connection with this number
    #[arg(long, value_name = "NUMBER")]
    pub connection: Option<usize>,
    /// Show only calls with this XID, for example 0x1a2b3c4d
    #[arg(long, value_name = "XID", value_parser = xid)]
    pub xid: Option<u32>,
    /// Show one line for each call
    #[arg(long)]
    pub calls: bool,
    /// Show every call; by default, one line represents repeated calls
    #[arg(long)]
    pub all: bool,
    /// Draw a connection as SVG; the default is the first iWARP connection
    #[arg(long, conflicts_with = "html")]
    pub svg: bool,
    /// Create an HTML page with drawings and totals
    #[arg(long)]
    pub html: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn xid(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a 32-bit number, such as 0x1a2b3c4d".to_owned())
}

/// Returns the definition of the command line, for man pages and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    RpcrdmaArguments::command()
}
