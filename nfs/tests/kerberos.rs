//! Kerberos with `nfs3d --sec`, `?sec=` and a KDC on loopback.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "kerberos/realm.rs"]
mod realm;

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, thread};

use bytes::Bytes;
use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs::client::{NfsConnection, Remote, ServerConnection, Url, this_user};
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::kerberos;
use rpcrdma_nfs::nfs::{ExportPolicy, NfsHandler};
use rpcrdma_nfs::security::Security;
use rpcrdma_nfs3::nfs_v3::NfsV3;
use rpcrdma_nfs3::{Fsinfo3Args, NfsFh3, nfs_v3};
use rpcrdma_runtime::GssFailure;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::Traffic;
use rpcrdma_runtime::program::{AuthStat, ReplyBounds};
use rpcrdma_runtime::wire::rpc::ReplyError;
use rpcrdma_runtime::xdr::{Message, Received};
use rpcrdma_runtime::{CallError, ClientOptions, GssClient, MessageTransport, Sends};
use rustix::process::geteuid;

use self::realm::{DIRECTORY, Realm, STRANGER, USER};

const KERBEROS: [Security; 3] = [Security::Krb5, Security::Krb5i, Security::Krb5p];
const ALL: &str = "krb5p,krb5i,krb5";
const ANONYMOUS: u32 = 65_534;

/// Runs a test in a new realm. Environment variables configure the realm. A process cannot change its own
/// environment without unsafe code, so the test runs in a second process.
fn within(test: &str, body: impl Future<Output = ()>) {
    if env::var_os(DIRECTORY).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.unwrap().block_on(body);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(realm) = Realm::start(folder.path()) else { return };
    let mut inner = realm.command(&env::current_exe().unwrap());
    let status = inner.args(["--exact", test, "--nocapture"]).status().unwrap();
    assert!(status.success(), "{}", fs::read_to_string(folder.path().join("kdc.log")).unwrap_or_default());
}

fn directory() -> PathBuf {
    env::var_os(DIRECTORY).unwrap().into()
}

fn kinit(principal: &str, lifetime: &str) {
    realm::ticket(&mut Command::new("kinit"), principal, lifetime);
}

struct Daemon {
    child: Child,
    /// The server's ports for RDMA and TCP.
    ports: [String; 2],
}

impl Daemon {
    fn command(sec: &str, listen: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nfs3d"));
        command.env("XDG_STATE_HOME", directory()).arg(served());
        command.args(["--listen", listen, "--tcp", "127.0.0.1:0", "--sec", sec]);
        command
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = |scheme: &str| {
            let url = line.split_whitespace().find(|word| word.starts_with(scheme)).expect("a URL");
            let (_, port) = url.trim_end_matches(['/', ',']).rsplit_once(':').unwrap();
            port.to_owned()
        };
        let ports = [port("rdma://"), port("tcp://")];
        Daemon { child, ports }
    }

    fn url(&self, path: &str, sec: Security) -> Url {
        self.urls(path, sec)[0].parse().unwrap()
    }

    fn urls(&self, path: &str, sec: Security) -> [String; 2] {
        let [rdma, tcp] = &self.ports;
        [
            format!("rdma://localhost:{rdma}/{path}?sec={sec}"),
            format!("tcp://localhost:{tcp}/{path}?sec={sec}"),
        ]
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn served() -> PathBuf {
    let folder = directory().join("served");
    fs::create_dir_all(&folder).unwrap();
    // Users other than the user of the test must have access.
    fs::set_permissions(directory(), fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn nfs3(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nfs3")).args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&str]) {
    let output = nfs3(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn refuses(output: &Output, names: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for name in names {
        assert!(message.contains(name), "`{name}` is missing in: {message}");
    }
}

fn owner(path: &Path) -> u32 {
    fs::metadata(path).unwrap().uid()
}

#[test]
fn files_move_with_each_service_over_both_transports() {
    within("files_move_with_each_service_over_both_transports", async {
        kinit(USER, "1h");
        let daemon = Daemon::start(&mut Daemon::command(ALL, "127.0.0.1:0"));
        let (file, copy) = (directory().join("file"), directory().join("copy"));
        let content: Vec<u8> = (0u32..1_000_000).flat_map(u32::to_be_bytes).collect();
        fs::write(&file, &content).unwrap();
        let [file, copy] = [&file, &copy].map(|path| path.to_str().unwrap());
        for sec in KERBEROS {
            for (transport, url) in ["rdma", "tcp"].into_iter().zip(daemon.urls("", sec)) {
                let name = format!("{sec}-{transport}");
                let url = url.replace("/?", &format!("/{name}?"));
                succeeds(&["put", file, &url]);
                let stored = served().join(name);
                assert_eq!(fs::read(&stored).unwrap(), content, "{url}");
                if geteuid().is_root() {
                    assert_eq!(owner(&stored), 1, "{url}: the principal's user owns the file");
                }
                let _ = fs::remove_file(copy);
                succeeds(&["get", &url, copy]);
                assert_eq!(fs::read(copy).unwrap(), content, "{url}");
            }
        }
    });
}

#[test]
fn a_principal_without_a_user_is_anonymous() {
    within("a_principal_without_a_user_is_anonymous", async {
        kinit(STRANGER, "1h");
        let daemon = Daemon::start(&mut Daemon::command(ALL, "127.0.0.1:0"));
        let [url, _] = daemon.urls("made", Security::Krb5i);
        succeeds(&["mkdir", &url]);
        if geteuid().is_root() {
            assert_eq!(owner(&served().join("made")), ANONYMOUS);
        }
    });
}

async fn fsinfo(daemon: &Daemon, sec: Security) -> Result<(), CallError> {
    let url = daemon.url("", sec);
    let options = ClientOptions { credential: this_user(), ..ClientOptions::of::<NfsV3>() };
    let connection = ServerConnection::to(&url, options).await.unwrap();
    let Mountres3::Mnt3Ok(root) = mount_v3::Client(connection.clone()).mnt(&"/".into()).await.unwrap() else {
        panic!("MNT")
    };
    assert_eq!(root.auth_flavors, [390_005, 390_004], "MOUNT lists the flavors");
    let nfs = nfs_v3::Client(NfsConnection::new(connection, &url).unwrap());
    nfs.fsinfo(&Fsinfo3Args { fsroot: NfsFh3 { data: root.fhandle } }).await.map(drop)
}

#[test]
fn a_weaker_security_flavor_is_refused() {
    within("a_weaker_security_flavor_is_refused", async {
        kinit(USER, "1h");
        let daemon = Daemon::start(&mut Daemon::command("krb5p,krb5i", "127.0.0.1:0"));
        fsinfo(&daemon, Security::Krb5p).await.unwrap();
        fsinfo(&daemon, Security::Krb5i).await.unwrap();
        let sys = fsinfo(&daemon, Security::Sys).await;
        assert!(matches!(sys, Err(CallError::Rejected(ReplyError::Auth(AuthStat::TooWeak)))), "{sys:?}");
        let krb5 = fsinfo(&daemon, Security::Krb5).await;
        let too_weak = GssFailure::Rejected(ReplyError::Auth(AuthStat::TooWeak));
        assert!(matches!(&krb5, Err(CallError::Gss(failure)) if *failure == too_weak), "{krb5:?}");
        let [url, _] = daemon.urls("", Security::Sys);
        refuses(&nfs3(&["ls", &url]), &["does not accept sys", "only krb5p, krb5i", "?sec="]);
    });
}

#[test]
fn errors_name_the_cause_and_the_fix() {
    within("errors_name_the_cause_and_the_fix", async {
        let daemon = Daemon::start(&mut Daemon::command(ALL, "127.0.0.1:0"));
        let [url, _] = daemon.urls("", Security::Krb5);
        refuses(&nfs3(&["ls", &url]), &["no ticket", "nfs@localhost", "kinit"]);
        kinit(USER, "2s");
        thread::sleep(Duration::from_secs(5));
        refuses(&nfs3(&["ls", &url]), &["ticket has expired", "kinit"]);
        kinit(USER, "1h");
        let unknown = url.replace("localhost", "127.0.0.1");
        refuses(
            &nfs3(&["ls", &unknown]),
            &["no principal for this service", "addprinc -randkey nfs/127.0.0.1"],
        );
        let other_key = directory().join("elsewhere.keytab");
        let other = Daemon::start(Daemon::command(ALL, "127.0.0.1:0").env("KRB5_KTNAME", other_key));
        let [url, _] = other.urls("", Security::Krb5);
        refuses(&nfs3(&["ls", &url]), &["no key for this ticket", "ktadd nfs/localhost"]);
        let no_key = Daemon::command(ALL, "127.0.0.1:0").env("KRB5_KTNAME", "/nonexistent").output().unwrap();
        refuses(&no_key, &["no key of the service nfs", "ktadd", "KRB5_KTNAME"]);
    });
}

#[test]
fn a_client_survives_a_restart_of_its_server() {
    within("a_client_survives_a_restart_of_its_server", async {
        kinit(USER, "1h");
        let daemon = Daemon::start(&mut Daemon::command(ALL, "127.0.0.1:0"));
        let url = daemon.url("", Security::Krb5p);
        let remote = Remote::mount(&url).await.unwrap();
        remote.top().await.unwrap();
        drop(daemon);
        let _daemon = Daemon::start(&mut Daemon::command(ALL, &format!("127.0.0.1:{}", url.port)));
        remote.top().await.unwrap();
    });
}

#[test]
fn a_new_ticket_replaces_an_expired_context() {
    within("a_new_ticket_replaces_an_expired_context", async {
        let daemon = Daemon::start(&mut Daemon::command(ALL, "127.0.0.1:0"));
        kinit(USER, "4s");
        let remote = Remote::mount(&daemon.url("", Security::Krb5i)).await.unwrap();
        remote.top().await.unwrap();
        tokio::time::sleep(Duration::from_secs(7)).await;
        let expired = remote.top().await.unwrap_err().to_string();
        assert!(expired.contains("ticket has expired"), "{expired}");
        kinit(USER, "1h");
        remote.top().await.unwrap();
    });
}

/// A transport that passes calls to services in this process and stores the last call.
#[derive(Clone)]
struct Recorder {
    services: Services,
    last: Arc<Mutex<Bytes>>,
}

impl MessageTransport<NfsV3> for Recorder {
    fn next_xid(&self) -> u32 {
        7
    }

    fn min_item(&self) -> usize {
        1
    }

    async fn exchange(
        &self,
        _: &'static str,
        message: Message,
        _: ReplyBounds,
        _: Sends,
    ) -> Result<(Received, Traffic), CallError> {
        let call = message.flatten();
        *self.last.lock().unwrap() = call.clone();
        let reply =
            self.services.answer(&Received::unreduced(call), None).await.ok_or(CallError::Disconnected)?;
        Ok((Received::unreduced(reply.flatten()), Traffic::default()))
    }
}

#[test]
fn a_repeated_call_is_dropped_and_a_changed_one_is_denied() {
    within("a_repeated_call_is_dropped_and_a_changed_one_is_denied", async {
        kinit(USER, "1h");
        let policy = Arc::new(ExportPolicy { security: KERBEROS.to_vec(), ..ExportPolicy::default() });
        let mut services = Services::new();
        services.add(nfs_v3::Server(NfsHandler::new(Arc::new(MemoryExport::default())).policy(policy)));
        services.with_gss(kerberos::server().unwrap());
        for sec in KERBEROS {
            let recorder = Recorder { services: services.clone(), last: Arc::default() };
            let mechanism = kerberos::client("localhost").unwrap();
            let client = GssClient::<_, NfsV3>::new(recorder.clone(), mechanism, sec.service().unwrap());
            let nfs = nfs_v3::Client(client);
            let args = Fsinfo3Args::default();
            nfs.fsinfo(&args).await.unwrap();
            assert!(nfs.0.server().await.unwrap().starts_with(b"nfs/localhost@"));
            let call = recorder.last.lock().unwrap().clone();
            let again = services.answer(&Received::unreduced(call.clone()), None).await;
            assert!(again.is_none(), "{sec}: a repeated call is dropped");
            // The checksum of the header covers the XID.
            let changed = Bytes::from([&[!call[0]][..], &call[1..]].concat());
            let denied = services.answer(&Received::unreduced(changed), None).await.unwrap().flatten();
            let denial = [1, 1, 1, 13].into_iter().flat_map(u32::to_be_bytes).collect::<Vec<_>>();
            assert_eq!(denied[4..], denial, "{sec}: a rejected reply with RPCSEC_GSS_CREDPROBLEM");
            nfs.fsinfo(&args).await.unwrap();
        }
    });
}
