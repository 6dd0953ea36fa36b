//! Looks at RPC-over-RDMA: what a capture shows, and what devices there are.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Parser, Subcommand};
use rpcrdma_nfs::output;
use rpcrdma_tools::explain::{self, Selection, Trace};

/// Looks at RPC-over-RDMA.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Explain(Explain),
    /// Lists the RDMA devices of this machine, and says which provider an address would use
    Info {
        /// HOST:PORT
        addresses: Vec<String>,
    },
}

/// Shows the conversations in a capture: calls with their chunks, what was moved for each, replies, and sums.
///
/// Captures are made by RPCRDMA_PCAP=FILE, by tcpdump or by Wireshark; pcap and pcapng are read.
#[derive(Args)]
struct Explain {
    /// The capture; - reads standard input
    file: PathBuf,
    /// Only the connection of this number
    #[arg(long, value_name = "NUMBER")]
    connection: Option<usize>,
    /// Only calls with this XID, as the ladder shows it
    #[arg(long, value_name = "XID", value_parser = xid)]
    xid: Option<u32>,
    /// One line for each call
    #[arg(long)]
    calls: bool,
    /// Draw a connection, the first if none is named, as SVG
    #[arg(long, conflicts_with = "html")]
    svg: bool,
    /// Make a page with drawings and sums
    #[arg(long)]
    html: bool,
    /// Write to this file and not to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn xid(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "an XID is a number of 32 bits, as 0x1a2b3c4d".to_owned())
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Explain(arguments) => run(&arguments),
        Command::Info { addresses } => info(&addresses),
    };
    output::status("rpcrdma", done, |_| 1)
}

fn info(addresses: &[String]) -> anyhow::Result<()> {
    let mut text = rpcrdma_tools::info::devices()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for address in addresses {
        text += &runtime.block_on(rpcrdma_tools::info::address(address))?;
    }
    output::print(|out| out.write_all(text.as_bytes()))
}

fn run(arguments: &Explain) -> anyhow::Result<()> {
    let trace = trace(&arguments.file)?;
    let selection =
        Selection { connection: arguments.connection, xid: arguments.xid, brief: arguments.calls };
    if selection.connection.is_some_and(|number| number == 0 || number > trace.connections.len()) {
        bail!("{}: {}", arguments.file.display(), explain::nothing(&trace, &selection));
    }
    if let Some(xid) = selection.xid
        && !selection.connections(&trace).any(|connection| selection.calls(connection).next().is_some())
    {
        bail!("{}: no call has the XID {xid:#010x}", arguments.file.display());
    }
    let drawn = match (arguments.svg, arguments.html) {
        (true, _) => Some(explain::svg(&trace, &selection)),
        (_, true) => Some(explain::html(&trace, &selection)),
        _ => None,
    };
    let drawn = drawn.transpose().map_err(|why| anyhow!("{}: {why}", arguments.file.display()))?;
    let print = |out: &mut dyn Write| match &drawn {
        Some(drawn) => out.write_all(drawn.as_bytes()),
        None => explain::text(&trace, &selection, out),
    };
    match &arguments.output {
        Some(path) => write_to(path, print).with_context(|| path.display().to_string()),
        None => output::print(print),
    }
}

fn write_to(path: &Path, print: impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    print(&mut out)?;
    out.flush()
}

fn trace(file: &Path) -> anyhow::Result<Trace> {
    let trace = if file == Path::new("-") {
        explain::read(io::stdin())
    } else {
        explain::read(File::open(file).with_context(|| file.display().to_string())?)
    };
    trace.with_context(|| file.display().to_string())
}
