//! The command line of `nfs3d`, and its configuration file.

mod config;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser};
use ipnet::IpNet;

use crate::output::LogFormat;
use crate::provider::Provider;
use crate::security::Security;

pub use config::Nfs3dConfig;

/// Serves directories as NFSv3 exports over RPC-over-RDMA (by default, iWARP in user space).
///
/// If nfs3d runs as root, each call runs with the caller's user ID and groups, and new files belong to that
/// user. Root needs CAP_SETUID and CAP_SETGID. If nfs3d runs as another user, all callers have that user's
/// rights. AUTH_SYS does not authenticate callers, not even those on this machine: by default, a caller can
/// claim to be any user except root. --all-squash makes every caller anonymous. --secure accepts calls only
/// from ports reserved for root. Serve only networks whose machines you trust to send the correct user ID.
///
/// A secret key prevents forged file handles. The key is stored in a file, so handles stay valid when the
/// server restarts. --handle-key names the file. The default is $STATE_DIRECTORY/handle-key, else
/// $XDG_STATE_HOME/nfs3d/handle-key, else ~/.local/state/nfs3d/handle-key.
///
/// SIGHUP reloads the exports from the file of --config. Without --config, SIGHUP stops the server, as
/// SIGTERM and SIGINT do. The server supports systemd's readiness and watchdog protocols. Sockets passed by
/// systemd replace --listen and --tcp: the first is for RPC-over-RDMA, the second for TCP.
///
/// RUST_LOG controls the log, for example RUST_LOG=debug.
#[derive(Debug, Parser, PartialEq)]
#[command(name = "nfs3d", version)]
#[non_exhaustive]
pub struct Nfs3dArguments {
    /// The options of the only export, unless a configuration file contains export tables. In that case, the
    /// options except `path` are the defaults for the exports in these tables.
    #[command(flatten)]
    pub export: ExportOptions,
    /// Read options from this TOML file: NAME = VALUE for long options, dir = "DIR", and an array of tables
    /// named export, with the options of one export per table. Options outside of tables, except path,
    /// are the defaults for all exports. The command line overrides options outside of tables.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check options, provider, addresses, directories, handle key and keytab, then exit
    #[arg(long)]
    pub check_config: bool,
    /// The address to listen on for RPC-over-RDMA; port 0 selects a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:20049")]
    pub listen: String,
    /// Provider for RPC-over-RDMA: iwarp, verbs (an RDMA device), or auto (a device that has the address,
    /// else iwarp)
    #[arg(long, value_name = "PROVIDER", default_value_t)]
    pub provider: Provider,
    /// Require CRCs over iWARP. Connections always use CRCs if the client requires them. Linux's siw rejects
    /// a CRC that is split between two TCP segments, so its connections occasionally break
    #[arg(long)]
    pub crc: bool,
    /// Also serve NFS and MOUNT over TCP at this address. Linux's mount command calls MOUNT over TCP: pass
    /// this port as the mount option mountport=PORT
    #[arg(long, value_name = "ADDR:PORT")]
    pub tcp: Option<String>,
    /// The file with the key for file handles; created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub handle_key: Option<PathBuf>,
    /// Print statistics when the server stops: connections, replies, duplicate requests, traffic, and
    /// rejected or dropped messages
    #[arg(long)]
    pub stats: bool,
    /// Serve Prometheus metrics and a health check (/healthz) over HTTP at this address
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<String>,
    /// Maximum time, in seconds, to wait for running calls when the server stops
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub stop_timeout: Duration,
    /// The format of warnings, errors and the log on standard error. In JSON, each span is logged when it
    /// ends; RUST_LOG=rpcrdma_runtime::calls=debug logs one span per call
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Register NFS and MOUNT with rpcbind, under the netid rdma or rdma6, and with --tcp also under tcp or
    /// tcp6. Existing registrations of both programs under these netids are replaced
    #[arg(long)]
    pub register: bool,
    /// Register with the rpcbind at this address instead of this machine's rpcbind
    #[arg(long, value_name = "ADDR:PORT", requires = "register")]
    pub rpcbind: Option<String>,
}

/// The options of one export.
#[derive(Args, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The directory to serve; clients cannot access files outside it
    pub dir: Option<PathBuf>,
    /// The path at which clients mount the directory
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = mount_path)]
    pub path: String,
    /// Reject all changes
    #[arg(long)]
    pub read_only: bool,
    /// Also serve file systems mounted below the directory
    #[arg(long)]
    pub cross_mounts: bool,
    /// Serve callers in this network, for example 192.168.1.0/24 or fd00::7; may be repeated. Without this
    /// option, only this machine is served: loopback and the addresses of --listen and --tcp
    #[arg(long, value_name = "NET", value_delimiter = ',', value_parser = network)]
    pub allow: Vec<IpNet>,
    /// The accepted security flavors of NFS calls, most preferred first: sys (AUTH_SYS), krb5 (Kerberos),
    /// krb5i (with integrity), krb5p (with encryption). NFS calls with other flavors are rejected. Kerberos
    /// requires a key for the service nfs in the keytab (KRB5_KTNAME)
    #[arg(long, value_name = "SECURITY", value_delimiter = ',', default_value = "sys")]
    pub sec: Vec<Security>,
    /// Let callers that are root act as root instead of as the anonymous user
    #[arg(long, conflicts_with = "all_squash")]
    pub no_root_squash: bool,
    /// Reject calls from unprivileged ports (1024 and above), including all calls from nfs3
    #[arg(long)]
    pub secure: bool,
    /// Make every caller anonymous
    #[arg(long)]
    pub all_squash: bool,
    /// The user and group of anonymous callers
    #[arg(long, value_name = "UID:GID", default_value = "65534:65534", value_parser = identity)]
    pub anon: (u32, u32),
}

/// Parses the path of an export. Removes redundant slashes.
fn mount_path(text: &str) -> Result<String, String> {
    let names: Vec<_> = text.split('/').filter(|name| !name.is_empty()).collect();
    if !text.starts_with('/') || names.iter().any(|name| matches!(*name, "." | "..")) {
        return Err("expected a path that starts with / and has no component . or ..".to_owned());
    }
    Ok(format!("/{}", names.join("/")))
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|_| "expected a whole number of seconds".to_owned())
}

/// Parses a network or a single address.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| "expected ADDRESS or ADDRESS/BITS".to_owned())
}

fn identity(text: &str) -> Result<(u32, u32), String> {
    let (uid, gid) = text.split_once(':').ok_or("expected UID:GID")?;
    let number = |text: &str| text.parse().ok().filter(|id| *id != u32::MAX);
    number(uid).zip(number(gid)).ok_or_else(|| "expected user and group IDs below 4294967295".to_owned())
}

/// Returns the definition of the command line, for man pages and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    Nfs3dArguments::command()
}
