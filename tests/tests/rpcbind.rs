//! Registrations with an rpcbind and lookups by clients. Most tests run their own small rpcbind.
#![allow(clippy::unwrap_used)] // a test that cannot continue panics

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq, vers1};
use rpcrdma_nfs3::nfs_v3;
use rpcrdma_rpcbind::{RpListElement, Rpcb, RpcblistPtr};
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{Binding, CallContext, Program, Reject, Service, answer};
use rpcrdma_runtime::xdr::{Reader, Reducer, XdrString};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{TcpServer, TcpServerOptions};
use rpcrdma_services::rpcbind::{self, Netid, Rpcbind, RpcbindError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Table = Arc<Mutex<Vec<Rpcb>>>;

/// One version of a small rpcbind: SET, UNSET, GETADDR, DUMP and GETVERSADDR (RFC 1833).
struct SmallRpcbind {
    version: u32,
    table: Table,
}

fn same_key(one: &Rpcb, other: &Rpcb) -> bool {
    let name = |entry: &Rpcb| (entry.r_prog, entry.r_vers, entry.r_netid.clone());
    name(one) == name(other)
}

impl SmallRpcbind {
    fn set(&self, entry: Rpcb) -> bool {
        let mut table = self.table.lock().unwrap();
        let free = !table.iter().any(|there| same_key(there, &entry));
        if free {
            table.push(entry);
        }
        free
    }

    fn unset(&self, entry: &Rpcb) -> bool {
        let mut table = self.table.lock().unwrap();
        let before = table.len();
        table.retain(|there| !same_key(there, entry));
        table.len() < before
    }

    /// Returns the address registered for TCP, or an empty string. Ignores the netid in the query, as rpcbind
    /// does.
    fn address(&self, mut entry: Rpcb) -> XdrString {
        entry.r_netid = XdrString::from("tcp");
        let table = self.table.lock().unwrap();
        table
            .iter()
            .find(|there| same_key(there, &entry))
            .map(|there| there.r_addr.clone())
            .unwrap_or_default()
    }

    fn list(&self) -> RpcblistPtr {
        let table = self.table.lock().unwrap();
        RpcblistPtr(table.iter().map(|entry| RpListElement { rpcb_map: entry.clone() }).collect())
    }
}

impl Service for SmallRpcbind {
    fn program(&self) -> u32 {
        100_000
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            match (context.procedure, self.version) {
                (1, _) => answer(args, reply, async |entry| Ok(self.set(entry))).await,
                (2, _) => answer(args, reply, async |entry| Ok(self.unset(&entry))).await,
                (3, _) | (9, 4) => answer(args, reply, async |entry| Ok(self.address(entry))).await,
                (4, _) => answer(args, reply, async |()| Ok(self.list())).await,
                _ => Err(Reject::ProcedureUnavailable),
            }
        })
    }
}

async fn run(versions: &[u32]) -> (Table, Rpcbind) {
    let table = Table::default();
    let mut services = Services::new();
    for version in versions {
        services.add(SmallRpcbind { version: *version, table: table.clone() });
    }
    let server = Server::bind_tcp("127.0.0.1:0").await.unwrap().services(services);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    (table, Rpcbind::connect(address).await.unwrap())
}

struct Conf;

impl vers1::Handler for Conf {
    async fn conf_rdma(&self, _: &CallContext, request: ConfigRdmaReq) -> Result<ConfigRdmaReply, Reject> {
        Ok(ConfigRdmaReply { maxcall_sendsize: request.maxcall_sendsize, align: 0, maxrdmaread: 7 })
    }
}

const PROGRAM: u32 = vers1::Vers1::NUMBER;

fn conf() -> Services {
    let mut services = Services::new();
    services.add(vers1::Server(Conf));
    services
}

fn v4(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn r250_a_server_over_rdma_is_registered_and_found_under_its_netid() {
    for versions in [&[3, 4][..], &[3]] {
        let (table, rpcbind) = run(versions).await;
        let server = Server::bind("127.0.0.1:0").await.unwrap().services(conf());
        let address = server.local_addr().unwrap();
        let registered = rpcbind.register(&conf(), Netid::rdma(address.ip()), address).await.unwrap();
        // Clone the table instead of holding its lock, which the rpcbind needs for the lookups below.
        let registrations = table.lock().unwrap().clone();
        let [entry] = &registrations[..] else { panic!("expected one registration") };
        let netids = vers1::Vers1::NETIDS;
        assert!(netids.contains(&entry.r_netid.to_str().unwrap()), "expected one of {netids:?}");
        assert_eq!((entry.r_prog, entry.r_vers), (100_417, 1));
        tokio::spawn(server.run(std::future::pending()));

        let found = rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap();
        assert_eq!(found, Some(address));
        let client = vers1::Client(Client::connect(found.unwrap()).await.unwrap());
        assert_eq!(client.conf_rdma(&ConfigRdmaReq::default()).await.unwrap().maxrdmaread, 7);
        for (program, version, netid) in
            [(PROGRAM, 2, Netid::Rdma), (PROGRAM + 1, 1, Netid::Rdma), (PROGRAM, 1, Netid::Rdma6)]
        {
            assert_eq!(rpcbind.lookup(program, version, netid).await.unwrap(), None);
        }
        assert_eq!(registered.programs(), [(PROGRAM, 1)]);
        drop(client);
    }
}

/// Requirement: R250
#[tokio::test]
async fn ipv6_has_a_separate_netid() {
    let (table, rpcbind) = run(&[3, 4]).await;
    let address: SocketAddr = "[2001:db8::1]:20049".parse().unwrap();
    let _registered = rpcbind.register(&conf(), Netid::rdma(address.ip()), address).await.unwrap();
    assert_eq!(table.lock().unwrap()[0].r_netid.to_str(), Ok("rdma6"));
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma6).await.unwrap(), Some(address));
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap(), None);
}

/// An rpcbind answers GETADDR with an address for the transport that carries the query, so a client cannot
/// use GETADDR to find RDMA services.
#[tokio::test]
async fn tcp_and_rdma_are_distinguished() {
    for versions in [&[3, 4][..], &[3]] {
        let (_, rpcbind) = run(versions).await;
        let (rdma, tcp) = (v4("192.0.2.1:20049"), v4("192.0.2.1:2049"));
        let _over_tcp = rpcbind.register(&conf(), Netid::Tcp, tcp).await.unwrap();
        assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap(), None);
        let _over_rdma = rpcbind.register(&conf(), Netid::Rdma, rdma).await.unwrap();
        assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap(), Some(rdma));
        assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Tcp).await.unwrap(), Some(tcp));
    }
}

#[tokio::test]
async fn a_wildcard_address_is_replaced_by_the_hosts_address() {
    let (_, rpcbind) = run(&[3, 4]).await;
    for netid in [Netid::Rdma, Netid::Tcp] {
        let _registered = rpcbind.register(&conf(), netid, v4("0.0.0.0:20049")).await.unwrap();
        let found = rpcbind.lookup(PROGRAM, 1, netid).await.unwrap();
        assert_eq!(found, Some(v4("127.0.0.1:20049")), "{netid}");
    }
}

#[tokio::test]
async fn registrations_are_removed_at_shutdown_and_on_drop() {
    let (table, rpcbind) = run(&[3, 4]).await;
    let mut services = conf();
    services.add(SmallRpcbind { version: 4, table: Table::default() });
    let address = v4("127.0.0.1:1");
    let registered = rpcbind.register(&services, Netid::Rdma, address).await.unwrap();
    assert_eq!(table.lock().unwrap().len(), 2);
    registered.remove().await.unwrap();
    assert_eq!(table.lock().unwrap().len(), 0);

    drop(rpcbind.register(&services, Netid::Rdma, address).await.unwrap());
    let empty = async {
        while !table.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), empty).await.unwrap();
}

#[tokio::test]
async fn another_servers_registration_stays_unless_it_is_replaced() {
    let (table, rpcbind) = run(&[3, 4]).await;
    let (first, second) = (v4("127.0.0.1:1"), v4("127.0.0.1:2"));
    let held = rpcbind.register(&conf(), Netid::Rdma, first).await.unwrap();
    let mut two = Services::new();
    two.add(SmallRpcbind { version: 4, table: Table::default() });
    two.add(vers1::Server(Conf));
    let refused = rpcbind.register(&two, Netid::Rdma, second).await;
    assert!(
        matches!(refused, Err(RpcbindError::Refused { program: PROGRAM, version: 1, netid: Netid::Rdma })),
        "{refused:?}"
    );
    assert_eq!(table.lock().unwrap().len(), 1, "the failed registration adds no entries");
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap(), Some(first));
    let replaced = rpcbind.replace(&two, Netid::Rdma, second).await.unwrap();
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap(), Some(second));
    // Removing a replaced registration leaves the new registration unchanged.
    held.remove().await.unwrap();
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await.unwrap(), Some(second));
    assert_eq!(table.lock().unwrap().len(), 2);
    replaced.remove().await.unwrap();
    assert!(table.lock().unwrap().is_empty());
}

#[derive(Clone, Copy)]
enum Fault {
    None,
    /// The relay closes the connection without forwarding the reply.
    Lost,
    /// The reply is dropped, and the connection stays open.
    Withheld,
}

type Faults = Arc<Mutex<VecDeque<Fault>>>;

/// Starts an rpcbind without a duplicate-request cache, behind a relay that applies the returned faults to
/// the replies.
async fn faulty_rpcbind() -> (Table, Rpcbind, Faults) {
    let (table, faults) = (Table::default(), Faults::default());
    let options = TcpServerOptions { duplicates: None, ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap();
    let server = [3, 4]
        .into_iter()
        .fold(server, |server, version| server.service(SmallRpcbind { version, table: table.clone() }));
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpcbind = front.local_addr().unwrap();
    let shared = faults.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = front.accept().await {
            let server = TcpStream::connect(address).await.unwrap();
            tokio::spawn(relay(client, server, shared.clone()));
        }
    });
    (table, Rpcbind::connect(rpcbind).await.unwrap(), faults)
}

async fn relay(client: TcpStream, server: TcpStream, faults: Faults) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let replies = async {
        while let Ok(mark) = from_server.read_u32().await {
            let mut reply = vec![0; (mark & 0x7fff_ffff) as usize];
            from_server.read_exact(&mut reply).await.unwrap();
            let fault = faults.lock().unwrap().pop_front();
            match fault {
                None | Some(Fault::None) => {}
                Some(Fault::Lost) => return,
                Some(Fault::Withheld) => continue,
            }
            if to_client.write_all(&[&mark.to_be_bytes(), &reply[..]].concat()).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = replies => {}
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
    }
}

async fn until(table: &Table, entries: usize) {
    let done = async {
        while table.lock().unwrap().len() != entries {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), done).await.unwrap();
}

#[tokio::test]
async fn a_registration_without_a_reply_is_removed() {
    let (table, rpcbind, faults) = faulty_rpcbind().await;
    let (services, address) = (conf(), v4("127.0.0.1:1"));
    faults.lock().unwrap().push_back(Fault::Lost);
    let failed = rpcbind.register(&services, Netid::Rdma, address).await;
    assert!(matches!(failed, Err(RpcbindError::Call(_))), "{failed:?}");
    assert!(table.lock().unwrap().is_empty());
    // A registration is also removed if the future of `register` is dropped.
    faults.lock().unwrap().push_back(Fault::Withheld);
    tokio::select! {
        ended = rpcbind.register(&services, Netid::Rdma, address) => panic!("the reply was withheld: {ended:?}"),
        () = until(&table, 1) => {}
    }
    until(&table, 0).await;
}

#[tokio::test]
async fn a_registration_is_removed_even_if_the_reply_is_lost() {
    let (table, rpcbind, faults) = faulty_rpcbind().await;
    let registered = rpcbind.register(&conf(), Netid::Rdma, v4("127.0.0.1:1")).await.unwrap();
    // The reply to DUMP arrives, and the reply to UNSET is lost.
    faults.lock().unwrap().extend([Fault::None, Fault::Lost]);
    registered.remove().await.unwrap();
    assert!(faults.lock().unwrap().is_empty() && table.lock().unwrap().is_empty());
}

#[cfg(unix)]
async fn serve_socket(listener: tokio::net::UnixListener, services: Services) {
    use rpcrdma_runtime::wire::rpc::{Records, record_mark};
    use rpcrdma_runtime::xdr::Received;
    while let Ok((mut socket, _)) = listener.accept().await {
        let (mut records, mut input) = (Records::new(1 << 20), bytes::BytesMut::new());
        loop {
            if let Some(call) = records.next(&mut input).unwrap() {
                let reply = services.answer(&Received::unreduced(call), None).await.unwrap().flatten();
                let mark = record_mark(reply.len() as u64).unwrap();
                // Write the reply in two parts, which the reader must join.
                socket.write_all(&mark).await.unwrap();
                socket.write_all(&reply).await.unwrap();
            } else if socket.read_buf(&mut input).await.unwrap() == 0 {
                break;
            }
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_local_socket_works_like_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rpcbind.sock");
    assert!(Rpcbind::at_socket(&path).await.is_err(), "no rpcbind listens");
    let table = Table::default();
    let mut services = Services::new();
    for version in [3, 4] {
        services.add(SmallRpcbind { version, table: table.clone() });
    }
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let again = services.clone();
    let server = tokio::spawn(serve_socket(listener, services));
    let rpcbind = Rpcbind::at_socket(&path).await.unwrap();
    for (netid, address) in
        [(Netid::Rdma, "0.0.0.0:20049"), (Netid::Tcp, "127.0.0.1:2049"), (Netid::Rdma6, "[::]:7")]
    {
        let address: SocketAddr = address.parse().unwrap();
        let registered = rpcbind.register(&conf(), netid, address).await.unwrap();
        let found = rpcbind.lookup(PROGRAM, 1, netid).await.unwrap().unwrap();
        assert!(found.port() == address.port() && found.ip().is_loopback(), "{netid}: {found}");
        registered.remove().await.unwrap();
        assert!(table.lock().unwrap().is_empty());
    }
    server.abort();
    assert!(server.await.is_err());
    for _ in 0..2 {
        assert!(
            matches!(rpcbind.lookup(PROGRAM, 1, Netid::Rdma).await, Err(RpcbindError::Call(_))),
            "stopped"
        );
    }
    std::fs::remove_file(&path).unwrap();
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(serve_socket(listener, again));
    let address = v4("127.0.0.1:2049");
    let _registered = rpcbind.register(&conf(), Netid::Tcp, address).await.unwrap();
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Tcp).await.unwrap(), Some(address), "restarted");
}

#[cfg(unix)]
#[tokio::test]
async fn an_unexpected_record_on_the_local_socket_affects_one_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rpcbind.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let mut services = Services::new();
    services.add(SmallRpcbind { version: 4, table: Table::default() });
    tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        first.write_all(&[0x80, 0, 0, 4, 9, 9, 9, 9]).await.unwrap();
        serve_socket(listener, services).await;
        drop(first);
    });
    let rpcbind = Rpcbind::at_socket(&path).await.unwrap();
    rpcbind.lookup(PROGRAM, 1, Netid::Tcp).await.unwrap_err();
    assert_eq!(rpcbind.lookup(PROGRAM, 1, Netid::Tcp).await.unwrap(), None);
}

#[tokio::test]
async fn an_invalid_address_is_an_error() {
    let (table, rpcbind) = run(&[3, 4]).await;
    let long = "9".repeat(100_000);
    for (netid, address) in [
        ("rdma", "nonsense"),
        ("rdma", ""),
        ("rdma", "192.0.2.1.0.0"),
        ("rdma", "192.0.2.1.256.0"),
        ("rdma", "::1.78.81"),
        ("rdma", "224.0.0.1.78.81"),
        ("rdma", "255.255.255.255.78.81"),
        ("rdma6", "::.78.81"),
        ("rdma6", "ff02::1.78.81"),
        ("rdma6", "127.0.0.1.78.81"),
        ("rdma6", "::ffff:224.0.0.1.78.81"),
        ("rdma6", "::ffff:255.255.255.255.78.81"),
        ("rdma6", "::ffff:0.0.0.0.78.81"),
        ("rdma", &long),
    ] {
        *table.lock().unwrap() = vec![Rpcb {
            r_prog: PROGRAM,
            r_vers: 1,
            r_netid: XdrString::from(netid),
            r_addr: XdrString::from(address),
            r_owner: XdrString::from("owner"),
        }];
        let netid = if netid == "rdma" { Netid::Rdma } else { Netid::Rdma6 };
        let found = rpcbind.lookup(PROGRAM, 1, netid).await;
        let Err(RpcbindError::BadAddress { address: shown, .. }) = found else {
            panic!("{address:.40}: {found:?}")
        };
        assert!(shown.len() <= 80);
    }
}

#[tokio::test]
async fn a_missing_rpcbind_is_an_error_except_for_nfs() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(Rpcbind::connect(free).await, Err(RpcbindError::Connect(_))));
    // NFS over RDMA has an assigned port, so no query is needed.
    let found = rpcbind::find::<nfs_v3::NfsV3>("127.0.0.1").await.unwrap();
    assert_eq!(found, Some(v4("127.0.0.1:20049")));
    let found = rpcbind::find::<nfs_v3::NfsV3>("::1").await.unwrap();
    assert_eq!(found, Some("[::1]:20049".parse().unwrap()));
}

/// If `RPCRDMA_RPCBIND` is set, registers a program with this machine's rpcbind and removes the registration.
#[tokio::test]
async fn the_rpcbind_of_this_machine() {
    if std::env::var_os("RPCRDMA_RPCBIND").is_none() {
        return not_run::not_run("RPCRDMA_RPCBIND is not set: no registration with this machine's rpcbind");
    }
    let local = Rpcbind::local().await.unwrap();
    let over_tcp = Rpcbind::of("127.0.0.1").await.unwrap();
    for (netid, address) in [
        (Netid::Rdma, v4("0.0.0.0:20049")),
        (Netid::Tcp, v4("127.0.0.1:2049")),
        (Netid::Rdma6, v4("[::1]:7")),
    ] {
        let registered = local.replace(&conf(), netid, address).await.unwrap();
        // An rpcbind may accept a repeated registration of the same address, so use another address.
        let another = SocketAddr::new(address.ip(), address.port() + 1);
        let refused = local.register(&conf(), netid, another).await;
        assert!(matches!(refused, Err(RpcbindError::Refused { .. })), "{netid}: {refused:?}");
        for rpcbind in [&local, &over_tcp] {
            let found = rpcbind.lookup(PROGRAM, 1, netid).await.unwrap().unwrap();
            assert!(found.port() == address.port() && found.ip().is_loopback(), "{netid}: {found}");
        }
        registered.remove().await.unwrap();
        assert_eq!(over_tcp.lookup(PROGRAM, 1, netid).await.unwrap(), None, "{netid}");
    }
}
