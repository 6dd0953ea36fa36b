//! Serves a directory by NFSv3 and MOUNT over RPC-over-RDMA, with iWARP in user space, and over TCP if asked to.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use rpcrdma_examples::export::directory::DirectoryExport;
use rpcrdma_examples::nfs::{MountHandler, NfsHandler, must_not_run_twice};
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_runtime::Server;
use rpcrdma_runtime::proto::rpc::Services;
use rpcrdma_runtime::shell::{
    DuplicateCache, DuplicateOptions, Remember, ServerOptions, TcpServer, TcpServerOptions,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Serves a directory by NFSv3 over RPC-over-RDMA (iWARP in user space over TCP).
///
/// Every caller has the rights of the user who runs this, so listen where only callers come that you trust.
/// Log by RUST_LOG, for example RUST_LOG=debug.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The directory; nothing outside of it can be reached
    dir: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:20049")]
    listen: String,
    /// Serve NFS and MOUNT over TCP as well, at this address: Linux's mount asks MOUNT there (mountport=PORT)
    #[arg(long, value_name = "ADDR:PORT")]
    tcp: Option<String>,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match serve(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        #[allow(clippy::print_stderr, reason = "a program's own words")]
        Err(error) => {
            eprintln!("nfs3d: {}", rpcrdma_examples::client::one_line(&error));
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "scripts read the address")]
async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let dir = &arguments.dir;
    let export = DirectoryExport::open(dir).with_context(|| dir.display().to_string())?;
    let export = Arc::new(export);
    let nfs = NfsHandler::new(export.clone()).read_only(arguments.read_only);
    let mut services = Services::new();
    services.add(nfs_v3::Server(nfs));
    services.add(mount_v3::Server(MountHandler::new(export)));
    let remember = Remember::only(must_not_run_twice);
    let duplicates = Some(DuplicateCache::new(DuplicateOptions { remember, ..DuplicateOptions::default() }));
    let tcp_options = TcpServerOptions { duplicates: duplicates.clone(), ..TcpServerOptions::default() };
    let options = ServerOptions { duplicates, ..ServerOptions::of::<nfs_v3::NfsV3>() };
    let server = Server::bind_with(arguments.listen, options).await?.services(services.clone());
    let mode = if arguments.read_only { ", read-only" } else { "" };
    let mut place = format!("rdma://{}/", server.local_addr()?);
    let tcp = match arguments.tcp {
        Some(address) => Some(TcpServer::bind_with(address, tcp_options).await?.services(services)),
        None => None,
    };
    if let Some(tcp) = &tcp {
        place += &format!(" and tcp://{}/", tcp.local_addr()?);
    }
    println!("serving {} at {place}{mode}", dir.display());
    let (stop, stopping) = watch::channel(());
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        drop(stop);
    });
    let stopped = || {
        let mut stopping = stopping.clone();
        async move { while stopping.changed().await.is_ok() {} }
    };
    let over_tcp = async {
        match tcp {
            Some(tcp) => tcp.run(stopped()).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(server.run(stopped()), over_tcp)?;
    println!("stopped");
    Ok(())
}
