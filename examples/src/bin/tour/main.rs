//! A tour from the text of a specification to a file transfer over RPC-over-RDMA.
//!
//! The program compiles `specs/nfs3.txt`, serves files in memory over iWARP on the loopback interface, and
//! makes NFSv3 calls that use every kind of chunk. It exits with status 0 only if the compiled code matches
//! `generated/nfs3`, all data is correct and every kind of chunk is used.

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

fn print(text: impl Display) -> Result<()> {
    writeln!(io::stdout(), "{text}").context("standard output")
}

async fn tour() -> Result<bool> {
    print("1. From text to Rust\n")?;
    let compiled = compile::compile_nfs3()?;
    print(&compiled)?;

    let export = std::sync::Arc::new(MemoryExport::default());
    let server = Server::bind("127.0.0.1:0")
        .await?
        .service(nfs_v3::Server(NfsHandler::new(export.clone())))
        .service(mount_v3::Server(MountHandler::new(export)));
    let address = server.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopped.await) }));
    print(format_args!("2. An NFSv3 server on {address}\n"))?;
    print("   files in memory; iWARP in user space over TCP: no driver, no RDMA hardware\n")?;

    print("3. Calls and their RDMA traffic\n")?;
    let outcome = calls::run(address).await;
    let _ = stop.send(());
    serving.await.context("the server's task")??;
    let (report, checks) = outcome?;
    print(&report)?;

    print("4. Checks\n")?;
    let mut passed = compiled.is_fresh;
    print(report::Check::new("the emitted Rust equals generated/nfs3", compiled.is_fresh))?;
    for check in checks.into_iter().chain(report.checks(calls::FILE_LEN as u64)) {
        passed &= check.passed;
        print(&check)?;
    }
    print(format_args!("\n{}", if passed { "all checks passed" } else { "some checks FAILED" }))?;
    Ok(passed)
}
