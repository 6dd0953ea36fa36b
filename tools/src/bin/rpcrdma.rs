//! Shows the RPC-over-RDMA conversations in a capture, and the RDMA devices of this machine.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use rpcrdma_nfs::output;
use rpcrdma_tools::cli::rpcrdma::{Explain, RpcrdmaArguments, RpcrdmaCommand};
use rpcrdma_tools::explain::{self, Selection, Trace};

fn main() -> ExitCode {
    let done = match RpcrdmaArguments::parse().command {
        RpcrdmaCommand::Explain(arguments) => run(&arguments),
        RpcrdmaCommand::Info { addresses } => info(&addresses),
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
    let Explain { connection, xid, calls: brief, all, .. } = *arguments;
    let selection = Selection { connection, xid, brief, all, ..Selection::default() };
    if selection.connection.is_some() && selection.connections(&trace).next().is_none() {
        bail!("{}: {}", arguments.file.display(), explain::empty_report(&trace, &selection));
    }
    if let Some(xid) = selection.xid
        && !selection.connections(&trace).any(|connection| selection.calls(connection).next().is_some())
    {
        bail!("{}: no call with XID {xid:#010x}", arguments.file.display());
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
