//! Serves directories as NFSv3 exports over RPC-over-RDMA, and optionally over TCP.

#[path = "nfs3d/exports.rs"]
mod exports;
#[path = "nfs3d/metrics.rs"]
mod metrics;
#[path = "nfs3d/systemd.rs"]
mod systemd;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use ipnet::IpNet;
use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::cli::nfs3d::{Nfs3dArguments, Nfs3dConfig};
use rpcrdma_nfs::export::directory::{DirectoryExport, HandleKey};
use rpcrdma_nfs::kerberos;
use rpcrdma_nfs::nfs::{Exports, MountHandler, must_not_run_twice};
use rpcrdma_nfs::output::{self, Closed, LevelFilter, one_line};
use rpcrdma_nfs::provider::Provider;
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_runtime::{CachePolicy, DuplicateCache, DuplicateOptions, IwarpListener, PeerFilter, Server};
use rpcrdma_runtime::{ServerOptions, Services, TcpOptions};
use rpcrdma_services::rpcbind::{Netid, Registration, Rpcbind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use self::exports::Directory;
use self::metrics::Exporter;
use self::systemd::Sockets;

fn main() -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    let config = match Nfs3dConfig::read(&line) {
        Ok(config) => config,
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => error.exit(),
            Err(error) => {
                output::start_log(Nfs3dConfig::log_format(&line), LevelFilter::WARN);
                return output::status("nfs3d", Err(error), |_| 2);
            }
        },
    };
    output::start_log(config.server.log_format, LevelFilter::WARN);
    let ended = if config.server.check_config {
        check(&config).map(|()| announce("the configuration is valid"))
    } else {
        run(config, line)
    };
    output::status("nfs3d", ended, |_| 1)
}

/// The server continues if standard output is closed.
fn announce(what: impl Display) {
    match output::print(|out| writeln!(out, "{what}")) {
        Err(error) if !error.is::<Closed>() => warn(one_line(&error)),
        _ => {}
    }
}

fn warn(what: impl Display) {
    output::warn("nfs3d", what);
}

/// Checks the configuration without binding an address or creating a file.
fn check(config: &Nfs3dConfig) -> anyhow::Result<()> {
    let Nfs3dConfig { server, exports, .. } = config;
    ensure!(server.provider.is_built(), "--provider {}: built without the feature `verbs`", server.provider);
    let optional = [("tcp", &server.tcp), ("metrics", &server.metrics), ("rpcbind", &server.rpcbind)];
    let optional = optional.into_iter().filter_map(|(option, address)| Some((option, address.as_ref()?)));
    for (option, address) in std::iter::once(("listen", &server.listen)).chain(optional) {
        let found = address.to_socket_addrs();
        found.with_context(|| format!("cannot resolve the address of --{option} ({address})"))?;
    }
    if let Some(path) = &server.handle_key {
        match HandleKey::load(path) {
            // The server will create the file.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
            Ok(_) => {}
        }
    }
    let directories = exports::open(exports, None, &[])?;
    if directories.iter().any(Directory::has_kerberos) {
        kerberos::server()?;
    }
    Ok(())
}

fn run(config: Nfs3dConfig, line: Vec<OsString>) -> anyhow::Result<()> {
    if config.server.provider == Provider::Verbs && std::env::var_os("RPCRDMA_PCAP").is_some() {
        warn("RPCRDMA_PCAP is ignored with --provider verbs: only iWARP is captured");
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let served = runtime.block_on(serve(config, line));
    runtime.shutdown_timeout(output::SHUTDOWN);
    served
}

struct Listening {
    server: Server,
    addresses: Vec<(Netid, SocketAddr)>,
}

impl Listening {
    /// Binds the addresses, or uses the sockets passed by systemd. `files` is the process's limit on open
    /// files, which bounds the number of connections.
    async fn at(arguments: &Nfs3dArguments, files: usize) -> anyhow::Result<Self> {
        let sockets = Sockets::passed()?;
        let policy = CachePolicy::only(must_not_run_twice);
        let duplicates = DuplicateCache::new(DuplicateOptions { policy, ..DuplicateOptions::default() });
        let (duplicates, drain) = (Some(duplicates), arguments.stop_timeout);
        let defaults = ServerOptions::of::<nfs_v3::NfsV3>();
        let (max_connections, max_connections_per_address) =
            connection_limits(files, arguments.provider, &defaults);
        let mut options =
            ServerOptions { duplicates, max_connections, max_connections_per_address, drain, ..defaults };
        options.iwarp.crc = arguments.crc;
        let server = match sockets.rdma {
            Some(_) if arguments.provider == Provider::Verbs => {
                bail!(
                    "--provider verbs cannot use the RDMA socket passed by systemd, which carries iWARP; \
                     disable the socket unit, or use --provider iwarp"
                );
            }
            Some(listener) => {
                Server::with_acceptor(IwarpListener::of(listener, options.iwarp.clone())?, options)?
            }
            None => arguments.provider.bind(&arguments.listen, options).await?,
        };
        let server = match (sockets.tcp, &arguments.tcp) {
            (Some(listener), _) => server.also_tcp_listener(listener, TcpOptions::default()),
            (None, Some(address)) => server.also_tcp(address.as_str(), TcpOptions::default()).await?,
            (None, None) => server,
        };
        let netids = [Netid::rdma, Netid::tcp];
        let addresses = server.local_addrs()?.into_iter().zip(netids).map(|(at, netid)| (netid(at.ip()), at));
        Ok(Listening { addresses: addresses.collect(), server })
    }

    fn urls(&self) -> String {
        let scheme = |netid| if matches!(netid, Netid::Rdma | Netid::Rdma6) { "rdma" } else { "tcp" };
        let urls = self.addresses.iter().map(|(netid, at)| format!("{}://{at}/", scheme(*netid)));
        urls.collect::<Vec<_>>().join(" and ")
    }

    /// Returns the networks of this machine: loopback, and the bound addresses except `0.0.0.0`
    /// and `::`.
    fn this_machine(&self) -> Vec<IpNet> {
        let own = self.addresses.iter().map(|(_, at)| at.ip()).filter(|ip| !ip.is_unspecified());
        let v4 = IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8);
        let loopback = [v4, IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST))];
        // Merges repeated and adjacent networks, because MOUNT EXPORT shows the networks to clients.
        IpNet::aggregate(&loopback.into_iter().chain(own.map(IpNet::from)).collect())
    }

    /// Returns true if a bound address is not a loopback address.
    fn is_open(&self) -> bool {
        self.addresses.iter().any(|(_, at)| !at.ip().is_loopback())
    }
}

/// Returns the maximum number of connections, and the maximum from one address, for a process that may open
/// `files` files.
fn connection_limits(files: usize, provider: Provider, defaults: &ServerOptions) -> (usize, usize) {
    let files_per_connection = match provider {
        Provider::Iwarp => 1,
        // A connection uses an event channel of librdmacm and a completion channel.
        Provider::Verbs | Provider::Auto => 2,
    };
    // Leaves half of the descriptors for the exports.
    let connections = (files / 2 / files_per_connection).clamp(1, defaults.max_connections);
    (connections, (connections / 4).clamp(1, defaults.max_connections_per_address))
}

/// Tries to raise the soft limit on open files to the hard limit. Returns the resulting soft limit.
fn raise_file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let in_force = if raised.is_ok() { limit.maximum } else { limit.current };
    in_force.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Waits until the sender of `stop` is dropped.
async fn stopped(stop: &mut watch::Receiver<()>) {
    while stop.changed().await.is_ok() {}
}

async fn serve(config: Nfs3dConfig, line: Vec<OsString>) -> anyhow::Result<()> {
    let Nfs3dConfig { server: arguments, exports, .. } = config;
    let files = raise_file_limit();
    let key = handle_key(arguments.handle_key.as_deref())?;
    let directories = exports::open(&exports, key.as_ref(), &[])?;
    let has_kerberos = directories.iter().any(Directory::has_kerberos);
    let gss = has_kerberos.then(kerberos::server).transpose()?;
    // The handler keeps SIGXFSZ from ending the process, so a WRITE past RLIMIT_FSIZE fails with EFBIG.
    let _too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    // The signal handlers must be installed before clients can reach the server.
    let signals = Signals::install()?;
    let exporter = match &arguments.metrics {
        Some(address) => Some(Exporter::bind(address).await?),
        None => None,
    };
    let listening = Listening::at(&arguments, files).await?;
    log_access(&directories);
    warn_of_access(&directories, listening.is_open());
    let this_machine = listening.this_machine();
    let exports = Exports::new(directories.iter().map(|directory| directory.served(&this_machine)));
    let allowing = exports.clone();
    let peers = PeerFilter::new(move |address| allowing.allows(address));
    let mut services = programs(&exports);
    if let Some(gss) = gss {
        services.with_gss(gss);
    }
    let registered = register(&arguments, &services, &listening.addresses).await?;
    let metrics_url = match &exporter {
        Some(exporter) => format!(", metrics at {}", exporter.url()?),
        None => String::new(),
    };
    announce(format_args!("serving {} at {}{metrics_url}", listed(&directories), listening.urls()));
    let stats = listening.server.stats();
    let (stop, mut stopping) = watch::channel(());
    if let Some(exporter) = exporter {
        tokio::spawn(exporter.run(stopping.clone()));
    }
    let prints_stats = arguments.stats;
    let running = Running {
        arguments,
        source: Arc::new(Source { line, key, has_kerberos }),
        this_machine,
        is_open: listening.is_open(),
        exports,
        peers: peers.clone(),
        directories: Arc::new(directories),
    };
    systemd::notify(&[NotifyState::Ready]);
    tokio::spawn(running.handle_signals(signals, stop));
    let ran = listening.server.peers(peers).services(services).run(stopped(&mut stopping)).await;
    let mut removed = Ok(());
    for registration in registered {
        removed = removed.and(registration.remove().await);
    }
    ran?;
    if prints_stats {
        announce(stats.snapshot());
    }
    announce("stopped");
    removed?;
    Ok(())
}

fn programs(exports: &Exports<DirectoryExport>) -> Services {
    let mut services = Services::new();
    services.add(nfs_v3::Server(exports.clone()));
    services.add(mount_v3::Server(MountHandler::of(exports.clone())));
    services
}

fn listed(directories: &[Directory]) -> String {
    let one = |Directory { options, .. }: &Directory| {
        let dir = options.dir.as_deref().unwrap_or(Path::new("")).display();
        let path = if options.path == "/" { String::new() } else { format!(" as {}", options.path) };
        let mode = if options.read_only { ", read-only" } else { "" };
        format!("{dir}{path}{mode}")
    };
    directories.iter().map(one).collect::<Vec<_>>().join(", ")
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

struct Source {
    line: Vec<OsString>,
    key: Option<HandleKey>,
    /// True if an export accepted Kerberos when the server started.
    has_kerberos: bool,
}

type Loaded = anyhow::Result<(Vec<Directory>, Nfs3dArguments)>;

impl Source {
    /// Reads the configuration again, and opens the directories that cannot be reused from `before`. Blocks
    /// while a file system does not respond.
    fn load(&self, before: &[Directory]) -> Loaded {
        let config = Nfs3dConfig::read(&self.line)?;
        let directories = exports::open(&config.exports, self.key.as_ref(), before)?;
        let needs_kerberos = directories.iter().any(Directory::has_kerberos) && !self.has_kerberos;
        ensure!(!needs_kerberos, "enabling Kerberos requires a restart");
        Ok((directories, config.server))
    }
}

struct Running {
    arguments: Nfs3dArguments,
    source: Arc<Source>,
    this_machine: Vec<IpNet>,
    is_open: bool,
    exports: Exports<DirectoryExport>,
    /// Accepts connections only from addresses that an export allows.
    peers: PeerFilter,
    directories: Arc<Vec<Directory>>,
}

impl Running {
    /// Handles signals and notifies the watchdog until the server must stop. Then drops `stop`.
    async fn handle_signals(mut self, mut signals: Signals, stop: watch::Sender<()>) {
        let mut watchdog = systemd::watchdog();
        // At most one reload runs at a time. If signals arrive during a reload, one more reload follows.
        let (mut loading, mut is_requested) = (None, false);
        loop {
            if is_requested && loading.is_none() {
                is_requested = false;
                loading = Some(self.start_reload());
            }
            let loaded = async {
                match &mut loading {
                    Some(loaded) => {
                        loaded.await.unwrap_or_else(|_| Err(anyhow!("the reload thread returned no result")))
                    }
                    None => std::future::pending().await,
                }
            };
            let alive = async {
                match &mut watchdog {
                    Some(interval) => drop(interval.tick().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = signals.interrupt.recv() => break,
                _ = signals.terminate.recv() => break,
                // Closing the terminal also causes SIGHUP, so SIGHUP stops a server without a configuration
                // file.
                _ = signals.hangup.recv() => {
                    if self.arguments.config.is_none() {
                        break;
                    }
                    if loading.is_some() {
                        warn("the previous reload has not ended; another reload follows");
                    }
                    is_requested = true;
                },
                loaded = loaded => {
                    loading = None;
                    self.finish_reload(loaded);
                }
                () = alive => systemd::notify(&[NotifyState::Watchdog]),
            }
        }
        systemd::notify(&[NotifyState::Stopping]);
        drop(stop);
    }

    /// Starts a reload on its own thread, because calls on a file system that does not respond may occupy the
    /// blocking pool.
    fn start_reload(&self) -> oneshot::Receiver<Loaded> {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            systemd::notify(&[NotifyState::Reloading, now]);
        }
        let (source, before) = (self.source.clone(), self.directories.clone());
        let (done, loaded) = oneshot::channel();
        let reload = move || drop(done.send(source.load(&before)));
        let thread = std::thread::Builder::new().name("reload".to_owned());
        if let Err(error) = thread.spawn(reload) {
            warn(format_args!("cannot start the reload: {error}"));
        }
        loaded
    }

    /// Replaces the exports. If the reload failed, logs a warning and leaves the exports unchanged.
    fn finish_reload(&mut self, loaded: Loaded) {
        match loaded {
            Ok((directories, mut arguments)) => {
                let exports = directories.iter().map(|directory| directory.served(&self.this_machine));
                self.exports.replace(exports);
                self.peers.recheck();
                self.directories = Arc::new(directories);
                log_access(&self.directories);
                warn_of_access(&self.directories, self.is_open);
                arguments.export = self.arguments.export.clone();
                if arguments != self.arguments {
                    warn("only the exports were reloaded; to apply the other changed options, restart nfs3d");
                }
                announce(format_args!("serving {}", listed(&self.directories)));
            }
            Err(error) => warn(format_args!("reload failed, nothing was changed: {}", one_line(&error))),
        }
        systemd::notify(&[NotifyState::Ready]);
    }
}

/// Loads the key for file handles from the requested path, or else from the default path. If the file does
/// not exist, creates it with a new key. If the default path is unknown or [`HandleKey::load_or_create`]
/// fails for it, logs a warning and returns `None`.
///
/// # Errors
/// The error of [`HandleKey::load_or_create`] for the requested file.
fn handle_key(requested: Option<&Path>) -> anyhow::Result<Option<HandleKey>> {
    if let Some(path) = requested {
        return Ok(Some(HandleKey::load_or_create(path).with_context(|| path.display().to_string())?));
    }
    let kept = match state_folder() {
        Some(folder) => {
            let path = folder.join("handle-key");
            HandleKey::load_or_create(&path).with_context(|| path.display().to_string())
        }
        None => Err(anyhow::anyhow!("HOME is not set")),
    };
    Ok(kept
        .inspect_err(|error| {
            let what = "file handles will be stale after a restart";
            warn(format_args!("{}: {what}; specify --handle-key FILE", one_line(error)));
        })
        .ok())
}

/// Returns the directory for persistent state, by the conventions of systemd and XDG, or `None` if no
/// environment variable names it.
fn state_folder() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
    // systemd separates multiple directories with colons.
    let of_service = named("STATE_DIRECTORY").and_then(|paths| std::env::split_paths(&paths).next());
    of_service.or_else(|| Some(of_user()?.join("nfs3d")))
}

fn log_access(directories: &[Directory]) {
    // All threads of the server have the capabilities of this thread, except while they act as a caller.
    let capabilities = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    for directory in directories {
        output::inform("nfs3d", directory.access(capabilities));
    }
}

fn warn_of_access(directories: &[Directory], is_open: bool) {
    if is_open && directories.iter().any(|directory| directory.options.allow.is_empty()) {
        warn(
            "exports without --allow admit only loopback and the addresses of --listen and --tcp (not 0.0.0.0 or [::]); --allow admits other networks",
        );
    }
    if directories.iter().any(|directory| !directory.impersonates_callers) {
        warn("nfs3d is not root: every caller has the rights of the server's user");
    }
    let exports = directories.iter().filter(|directory| directory.impersonates_callers);
    if let Some(whom) = exports::claimable_users(exports.map(|directory| &directory.options)) {
        let what = "AUTH_SYS is not verified: callers can claim to be";
        warn(format_args!("{what} {whom}; restrict this with --all-squash or --secure"));
    }
}

async fn register(
    arguments: &Nfs3dArguments,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_bounds_connections_in_total_and_per_address() {
        let limits = |files, provider| connection_limits(files, provider, &ServerOptions::default());
        assert_eq!(limits(usize::MAX, Provider::Iwarp), (1024, 256));
        assert_eq!(limits(1024, Provider::Iwarp), (512, 128));
        assert_eq!(limits(64, Provider::Iwarp), (32, 8));
        assert_eq!(limits(64, Provider::Verbs), (16, 4));
        // `auto` may find an RDMA device.
        assert_eq!(limits(64, Provider::Auto), (16, 4));
        assert_eq!(limits(6, Provider::Iwarp), (3, 1));
        assert_eq!(limits(0, Provider::Iwarp), (1, 1));
    }
}
