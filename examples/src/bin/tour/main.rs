//! The tour: from the text of a specification to a file that moved over RPC-over-RDMA, checked at the end.
//!
//! It compiles `specs/nfs3.txt` before your eyes, serves files in memory over iWARP on the loopback interface, and
//! calls NFSv3 so that every kind of chunk is in use. It ends with status 0 only if every byte came back equal and
//! every kind of chunk was seen.

mod calls;
mod compile;
mod report;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_runtime::Server;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> ExitCode {
    match tour().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "tour: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn say(what: impl Display) -> Result<()> {
    writeln!(io::stdout(), "{what}").context("standard output")
}

/// Whether everything was as it should be.
async fn tour() -> Result<bool> {
    say("1. From text to Rust\n")?;
    let compiled = compile::compile_nfs3()?;
    say(&compiled)?;

    let export = std::sync::Arc::new(MemoryExport::default());
    let server = Server::bind("127.0.0.1:0")
        .await?
        .service(nfs_v3::Server(NfsHandler::new(export.clone())))
        .service(mount_v3::Server(MountHandler::new(export)));
    let address = server.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopped.await) }));
    say(format_args!("2. An NFSv3 server on {address}\n"))?;
    say("   files in memory; iWARP in user space over TCP: no driver, no RDMA hardware\n")?;

    say("3. Calls, and how each travelled\n")?;
    let outcome = calls::run(address).await;
    let _ = stop.send(());
    serving.await.context("the server's task")??;
    let (report, checks) = outcome?;
    say(&report)?;

    say("4. Checks\n")?;
    let mut good = compiled.is_fresh;
    say(report::Check::new("the Rust that was emitted is generated/nfs3", compiled.is_fresh))?;
    for check in checks.into_iter().chain(report.checks(calls::FILE_LEN as u64)) {
        good &= check.passed;
        say(&check)?;
    }
    say(format_args!("\n{}", if good { "all good" } else { "NOT all good" }))?;
    Ok(good)
}
