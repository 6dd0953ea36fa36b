//! Registrations of `nfs3d --register` with rpcbind, and how clients find MOUNT. Each test starts an rpcbind.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rpcrdma_mount3::mount_v3;
use rpcrdma_nfs::client::{ClientError, Remote, ServerConnection, Url};
use rpcrdma_nfs::export::memory::MemoryExport;
use rpcrdma_nfs::nfs::{MountHandler, NfsHandler};
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_rpcbind::{RpListElement, Rpcb, RpcblistPtr};
use rpcrdma_runtime::Server;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{CallContext, Reject, Service, answer};
use rpcrdma_runtime::xdr::{Reader, Reducer};
use rpcrdma_services::rpcbind::{Netid, Rpcbind, RpcbindError};
use rustix::process::{Pid, Signal, kill_process};

type Table = Arc<Mutex<Vec<Rpcb>>>;

/// A minimal rpcbind version 3 service (RFC 1833) with the procedures SET, UNSET, GETADDR and DUMP.
struct Small(Table);

fn is_same(one: &Rpcb, other: &Rpcb) -> bool {
    (one.r_prog, one.r_vers, &one.r_netid) == (other.r_prog, other.r_vers, &other.r_netid)
}

impl Service for Small {
    fn program(&self) -> u32 {
        100_000
    }

    fn version(&self) -> u32 {
        3
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        let table = || self.0.lock().unwrap();
        Box::pin(async move {
            match context.procedure {
                1 => {
                    let set = async |entry: Rpcb| {
                        let mut table = table();
                        let free = !table.iter().any(|there| is_same(there, &entry));
                        table.extend(free.then_some(entry));
                        Ok(free)
                    };
                    answer(args, reply, set).await
                }
                2 => {
                    let unset = async |entry: Rpcb| {
                        let mut table = table();
                        let before = table.len();
                        table.retain(|there| !is_same(there, &entry));
                        Ok(table.len() < before)
                    };
                    answer(args, reply, unset).await
                }
                3 => {
                    let is_ipv6 = context.peer.is_some_and(|peer| peer.is_ipv6());
                    let address = async |entry: Rpcb| {
                        let entry = Rpcb { r_netid: if is_ipv6 { "tcp6" } else { "tcp" }.into(), ..entry };
                        let found = table().iter().find(|there| is_same(there, &entry)).cloned();
                        Ok(found.map(|there| there.r_addr).unwrap_or_default())
                    };
                    answer(args, reply, address).await
                }
                4 => {
                    let list = async |()| {
                        let entries =
                            table().iter().cloned().map(|rpcb_map| RpListElement { rpcb_map }).collect();
                        Ok(RpcblistPtr(entries))
                    };
                    answer(args, reply, list).await
                }
                _ => Err(Reject::ProcedureUnavailable),
            }
        })
    }
}

async fn serve(service: impl Service) -> SocketAddr {
    serve_at("127.0.0.1:0", service).await
}

async fn serve_at(address: &str, service: impl Service) -> SocketAddr {
    let mut services = Services::new();
    services.add(service);
    let server = Server::bind_tcp(address).await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

fn start(rpcbind: SocketAddr) -> (Child, BufReader<std::process::ChildStdout>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nfs3d"))
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .arg(dir.path())
        .args(["--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--register"])
        .args(["--rpcbind", &rpcbind.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    (child, out, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_registers_and_unregisters() {
    let table = Table::default();
    let at = serve(Small(table.clone())).await;
    let rpcbind = Rpcbind::connect(at).await.unwrap();
    let (mut killed, ..) = start(at);
    let first = table.lock().unwrap().clone();
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The registration of a killed server is replaced.
    let (mut child, mut out, _dir) = start(at);
    let second = table.lock().unwrap().clone();
    assert_eq!((first.len(), second.len()), (4, 4));
    assert!(first.iter().all(|entry| !second.contains(entry)), "{first:?} {second:?}");
    for program in [100_003, 100_005] {
        for netid in [Netid::Rdma, Netid::Tcp] {
            assert!(rpcbind.lookup(program, 3, netid).await.unwrap().is_some(), "{program} {netid}");
        }
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "stopped\n");
    assert!(child.wait().unwrap().success());
    assert!(table.lock().unwrap().is_empty());
}

/// Like Linux's server, this server offers MOUNT over TCP at a separate port, not on the connection for NFS
/// (RFC 8267 section 5.1).
#[tokio::test(flavor = "multi_thread")]
async fn mount_is_called_at_its_registered_port() {
    let export = Arc::new(MemoryExport::default());
    let nfs = nfs_v3::Server(NfsHandler::new(export.clone()));
    let rdma = Server::bind("127.0.0.1:0").await.unwrap().service(nfs.clone());
    let rdma_port = rdma.local_addr().unwrap().port();
    tokio::spawn(rdma.run(std::future::pending()));
    let tcp_port = serve(nfs).await.port();
    let mount = serve(mount_v3::Server(MountHandler::new(export))).await;
    let table = Table::default();
    let rpcbind = serve(Small(table.clone())).await.port();

    let bases = [format!("rdma://127.0.0.1:{rdma_port}/"), format!("tcp://127.0.0.1:{tcp_port}/")];
    for base in &bases {
        let url = |options: &str| format!("{base}?{options}").parse::<Url>().unwrap();
        let found = async |url: Url| -> Result<(), ClientError> {
            let remote = Remote::mount(&url).await?;
            assert_eq!(matches!(remote.connection(), ServerConnection::Tcp(_)), base.starts_with("tcp"));
            assert!(remote.find(b"/").await?.is_directory());
            Ok(())
        };
        found(url(&format!("mountport={}", mount.port()))).await.unwrap();
        table.lock().unwrap().clear();
        let by_rpcbind = url(&format!("rpcbind={rpcbind}"));
        let unknown = found(by_rpcbind.clone()).await.unwrap_err();
        assert!(matches!(unknown, ClientError::NoMount { .. }) && unknown.is_unreached(), "{unknown}");
        let [high, low] = mount.port().to_be_bytes();
        table.lock().unwrap().push(Rpcb {
            r_prog: 100_005,
            r_vers: 3,
            r_netid: "tcp".into(),
            r_addr: format!("127.0.0.1.{high}.{low}").as_str().into(),
            r_owner: "".into(),
        });
        found(by_rpcbind).await.unwrap();
    }
}

/// Like Linux's server, this server registers MOUNT at the wildcard addresses of IPv4 and IPv6.
#[tokio::test(flavor = "multi_thread")]
async fn mount_is_found_over_ipv6() {
    let export = Arc::new(MemoryExport::default());
    let nfs = serve_at("[::1]:0", nfs_v3::Server(NfsHandler::new(export.clone()))).await.port();
    let mount = serve_at("[::1]:0", mount_v3::Server(MountHandler::new(export))).await.port();
    let [high, low] = mount.to_be_bytes();
    let entry = |netid: &str, wildcard: &str| Rpcb {
        r_prog: 100_005,
        r_vers: 3,
        r_netid: netid.into(),
        r_addr: format!("{wildcard}.{high}.{low}").as_str().into(),
        r_owner: "".into(),
    };
    let table = Table::new(Mutex::new(vec![entry("tcp", "0.0.0.0"), entry("tcp6", "::")]));
    let rpcbind = serve_at("[::1]:0", Small(table.clone())).await.port();
    let url: Url = format!("tcp://[::1]:{nfs}/?rpcbind={rpcbind}").parse().unwrap();
    Remote::mount(&url).await.unwrap();

    table.lock().unwrap().pop();
    let unusable = Remote::mount(&url).await.unwrap_err();
    assert!(matches!(unusable, ClientError::Find(RpcbindError::BadAddress { .. })), "{unusable}");
}
