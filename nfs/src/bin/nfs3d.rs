//! Serves a directory by NFSv3 and MOUNT over RPC-over-RDMA, with iWARP in user space, and optionally over
//! TCP.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use ipnet::IpNet;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::cli::nfs3d::Arguments;
use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
use rpcrdma_nfs::kerberos;
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler, Policy, Squash, must_not_run_twice};
use rpcrdma_nfs::output::{self, Closed, complain, one_line};
use rpcrdma_nfs::security::Security;
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_runtime::Server;
use rpcrdma_runtime::proto::rpc::Services;
use rpcrdma_runtime::shell::{
    DuplicateCache, DuplicateOptions, PeerFilter, Remember, ServerOptions, TcpServer, TcpServerOptions,
};
use rpcrdma_services::rpcbind::{Netid, Registration, Rpcbind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    output::status("nfs3d", serve(Arguments::parse()).await, |_| 1)
}

/// Prints a line on standard output for scripts and people. The server continues if standard output is
/// closed.
fn say(what: impl Display) {
    match output::print(|out| writeln!(out, "{what}")) {
        Err(error) if !error.is::<Closed>() => complain("nfs3d", one_line(&error)),
        _ => {}
    }
}

/// Both servers before they run, and their addresses.
struct Listening {
    rdma: Server,
    tcp: Option<TcpServer>,
    addresses: Vec<(Netid, SocketAddr)>,
}

impl Listening {
    /// Binds the addresses, with connection limits that fit into `files`, the process's limit of open
    /// files.
    async fn at(arguments: &Arguments, files: usize) -> anyhow::Result<Self> {
        let transports = if arguments.tcp.is_some() { 2 } else { 1 };
        let connections = max_connections(files, transports);
        let remember = Remember::only(must_not_run_twice);
        let duplicates = DuplicateCache::new(DuplicateOptions { remember, ..DuplicateOptions::default() });
        let duplicates = Some(duplicates);
        let tcp_options =
            TcpServerOptions { duplicates: duplicates.clone(), connections, ..TcpServerOptions::default() };
        let options = ServerOptions { duplicates, connections, ..ServerOptions::of::<nfs_v3::NfsV3>() };
        let rdma = arguments.provider.bind(&arguments.listen, options).await?;
        let tcp = match &arguments.tcp {
            Some(address) => Some(TcpServer::bind_with(address.as_str(), tcp_options).await?),
            None => None,
        };
        let at = rdma.local_addr()?;
        let mut addresses = vec![(Netid::rdma(at.ip()), at)];
        if let Some(tcp) = &tcp {
            let at = tcp.local_addr()?;
            addresses.push((Netid::tcp(at.ip()), at));
        }
        Ok(Listening { rdma, tcp, addresses })
    }

    /// Accepts connections only from the networks of the policy.
    fn admit(self, policy: &Arc<Policy>) -> Self {
        let policy = policy.clone();
        let peers = PeerFilter::new(move |address| policy.allows(address));
        let tcp = self.tcp.map(|tcp| tcp.peers(peers.clone()));
        Listening { rdma: self.rdma.peers(peers), tcp, ..self }
    }

    fn urls(&self) -> String {
        let scheme = |netid| if matches!(netid, Netid::Rdma | Netid::Rdma6) { "rdma" } else { "tcp" };
        let urls = self.addresses.iter().map(|(netid, at)| format!("{}://{at}/", scheme(*netid)));
        urls.collect::<Vec<_>>().join(" and ")
    }

    /// Returns the addresses of this machine: loopback, and the bound ones.
    fn this_machine(&self) -> Vec<IpNet> {
        let own = self.addresses.iter().map(|(_, at)| at.ip()).filter(|ip| !ip.is_unspecified());
        let v4 = IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8);
        [v4, IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST))].into_iter().chain(own.map(IpNet::from)).collect()
    }

    /// Returns true if other machines can reach the server.
    fn is_open(&self) -> bool {
        self.addresses.iter().any(|(_, at)| !at.ip().is_loopback())
    }

    async fn run(self, services: Services, mut stop: watch::Receiver<()>) -> anyhow::Result<()> {
        let mut also = stop.clone();
        let over_tcp = async {
            match self.tcp {
                Some(tcp) => tcp.services(services.clone()).run(stopped(&mut also)).await,
                None => Ok(()),
            }
        };
        let over_rdma = self.rdma.services(services.clone()).run(stopped(&mut stop));
        tokio::try_join!(over_rdma, over_tcp)?;
        Ok(())
    }
}

/// Raises the limit of open files to the maximum that this process may have, and returns it.
fn raise_file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Without the right to raise it, the server works with the current limit.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let in_force = if raised.is_ok() { limit.maximum } else { limit.current };
    in_force.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Returns the connections per transport that leave half of the limit of open files to the served files.
fn max_connections(files: usize, transports: usize) -> usize {
    let max = ServerOptions::default().connections;
    (files / 2 / transports).clamp(1, max)
}

/// Waits until the sender is dropped.
async fn stopped(stop: &mut watch::Receiver<()>) {
    while stop.changed().await.is_ok() {}
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let dir = arguments.dir.display();
    let files = raise_file_limit();
    let export = DirectoryExport::open(&arguments.dir).with_context(|| dir.to_string())?;
    let export = export.cross_mounts(arguments.cross_mounts).read_only(arguments.read_only);
    let export = Arc::new(match handle_key(arguments.handle_key.as_deref())? {
        Some(key) => export.keyed(key),
        None => export,
    });
    let has_kerberos = arguments.sec.iter().any(|security| security.service().is_some());
    let gss = has_kerberos.then(kerberos::server).transpose()?;
    // A handler keeps the signal from ending the process. Instead, a WRITE past the limit for files
    // (RLIMIT_FSIZE) fails with EFBIG.
    let _too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    // Installed before the server is visible.
    let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listening = Listening::at(&arguments, files).await?;
    warn(&arguments, &listening, export.tells_callers_apart());
    let policy = Arc::new(policy(&arguments, &listening));
    let listening = listening.admit(&policy);
    let nfs = NfsHandler::new(export.clone()).read_only(arguments.read_only).policy(policy.clone());
    let mut services = Services::new();
    services.add(nfs_v3::Server(nfs));
    services.add(mount_v3::Server(MountHandler::new(export).policy(policy)));
    if let Some(gss) = gss {
        services.secured(gss);
    }
    let registered = register(&arguments, &services, &listening.addresses).await?;
    let mode = if arguments.read_only { ", read-only" } else { "" };
    say(format_args!("serving {dir} at {}{mode}", listening.urls()));
    let (stats, tcp_stats) = (listening.rdma.stats(), listening.tcp.as_ref().map(TcpServer::stats));
    let (stop, stopping) = watch::channel(());
    tokio::spawn(async move {
        either(interrupt, terminate).await;
        drop(stop);
    });
    let ran = listening.run(services, stopping).await;
    for registration in registered {
        registration.remove().await?;
    }
    ran?;
    if arguments.stats {
        say(format_args!("over RDMA\n{}", stats.snapshot()));
        if let Some(stats) = tcp_stats {
            say(format_args!("over TCP\n{}", stats.snapshot()));
        }
    }
    say("stopped");
    Ok(())
}

/// Returns the kept key of the server. Returns `None` with a warning if it cannot be kept.
///
/// # Errors
/// If the key cannot be kept in the requested file.
fn handle_key(asked: Option<&Path>) -> anyhow::Result<Option<HandleKey>> {
    if let Some(path) = asked {
        return Ok(Some(HandleKey::kept(path).with_context(|| path.display().to_string())?));
    }
    let kept = match state_folder() {
        Some(folder) => {
            let path = folder.join("handle-key");
            HandleKey::kept(&path).with_context(|| path.display().to_string())
        }
        None => Err(anyhow::anyhow!("no HOME")),
    };
    Ok(kept
        .inspect_err(|error| {
            let what = "what is mounted will be stale when this server is started anew";
            complain("nfs3d", format_args!("{}: {what}; --handle-key FILE keeps it good", one_line(error)));
        })
        .ok())
}

/// Returns the directory for persistent state, by the conventions of systemd and XDG.
fn state_folder() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
    named("STATE_DIRECTORY").or_else(|| Some(of_user()?.join("nfs3d")))
}

/// Warns about the admitted callers and their identities.
fn warn(arguments: &Arguments, listening: &Listening, tells_callers_apart: bool) {
    if arguments.allow.is_empty() && listening.is_open() {
        complain("nfs3d", "only callers of this machine are served; --allow lets others in");
    }
    if !tells_callers_apart {
        complain("nfs3d", "not as root, so every caller has the rights of the user who runs this");
    }
    if tells_callers_apart && !arguments.all_squash && arguments.sec.contains(&Security::Sys) {
        let whom = if arguments.no_root_squash { "any user" } else { "any user but root" };
        let what = "AUTH_SYS is believed: who can call can be";
        complain("nfs3d", format_args!("{what} {whom}; --all-squash and --secure take less"));
    }
}

async fn either(mut one: Signal, mut other: Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn policy(arguments: &Arguments, listening: &Listening) -> Policy {
    let squash = match (arguments.all_squash, arguments.no_root_squash) {
        (true, _) => Squash::All,
        (_, true) => Squash::Strangers,
        _ => Squash::Root,
    };
    let allow = if arguments.allow.is_empty() { listening.this_machine() } else { arguments.allow.clone() };
    let (security, principals) = (arguments.sec.clone(), kerberos::principals());
    Policy { allow, secure: arguments.secure, squash, anonymous: arguments.anon, security, principals }
}

async fn register(
    arguments: &Arguments,
    services: &Services,
    addresses: &[(Netid, SocketAddr)],
) -> anyhow::Result<Vec<Registration>> {
    let mut registered = Vec::new();
    if arguments.register {
        let rpcbind = match &arguments.rpcbind {
            Some(address) => Rpcbind::connect(address.as_str()).await?,
            None => Rpcbind::local().await?,
        };
        for (netid, address) in addresses {
            registered.push(rpcbind.replace(services, *netid, *address).await?);
        }
    }
    Ok(registered)
}
