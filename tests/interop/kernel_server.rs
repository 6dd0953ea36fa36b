//! Tests our client against the kernel's NFS server.

use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rpcrdma_mount3::{Mountres3, mount_v3};
use rpcrdma_nfs::client::{Remote, this_user};
use rpcrdma_nfs3::*;
use rpcrdma_runtime::Client;
use rpcrdma_runtime::Traffic;
use rpcrdma_runtime::provider::iwarp::{self, IwarpError, IwarpOptions};
use rpcrdma_runtime::{CallReport, ClientOptions, Observer};

use crate::credits::Credits;
use crate::guest::{Guest, Random, Siw, server, size};
use crate::place::{Device, Ours, address, inside, provider};
use crate::procedures::every_procedure;
use crate::relay::Relay;

/// The timeout for a call, for each step of the connection setup, and for a stalled connection.
///
/// An emulated guest is slow on a busy machine, and its first replies take longest.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn options(crc: bool) -> ClientOptions {
    let mut options =
        ClientOptions { credential: this_user(), timeout: TIMEOUT, ..ClientOptions::of::<nfs_v3::NfsV3>() };
    options.iwarp.crc = crc;
    for limit in [
        &mut options.iwarp.connect_timeout,
        &mut options.iwarp.reply_timeout,
        &mut options.iwarp.stall_timeout,
    ] {
        *limit = TIMEOUT;
    }
    options
}

pub(crate) async fn connect(guest: &Guest, options: ClientOptions) -> Client {
    connect_to(guest.ports().nfs_rdma, options).await
}

pub(crate) async fn connect_to(server: u16, options: ClientOptions) -> Client {
    let address = format!("{}:{server}", address());
    #[cfg(feature = "verbs")]
    if provider() == rpcrdma_nfs::provider::Provider::Verbs {
        let verbs = rpcrdma_verbs::VerbsOptions {
            connect_timeout: TIMEOUT,
            ..rpcrdma_verbs::VerbsOptions::default()
        };
        let connector = rpcrdma_verbs::VerbsConnector::new(address, verbs);
        return Client::connect_via(connector, options).await.unwrap();
    }
    provider().connect(&address, options).await.unwrap()
}

/// Returns the file handle of /export. Calls MOUNT over TCP, because the kernel's server does not offer MOUNT
/// over RDMA.
pub(crate) async fn root(guest: &Guest) -> NfsFh3 {
    let tcp = Client::connect_tcp(format!("{}:{}", address(), guest.ports().mount))
        .await
        .unwrap()
        .with_timeout(TIMEOUT);
    match mount_v3::Client(tcp).mnt(&"/export".into()).await.unwrap() {
        Mountres3::Mnt3Ok(found) => NfsFh3 { data: found.fhandle },
        refused => panic!("{refused:?}"),
    }
}

async fn mount(guest: &Guest, options: ClientOptions) -> Remote {
    Remote::of(connect(guest, options).await, root(guest).await).await.unwrap()
}

pub(crate) async fn put(remote: &Remote, name: &str, data: &[u8]) -> String {
    let root = remote.find(b"/").await.unwrap();
    let file = remote.create(&root, Bytes::copy_from_slice(name.as_bytes()), 0o644).await.unwrap();
    remote.write_file(&file, &mut Cursor::new(data), &|_| {}).await.unwrap().to_string()
}

pub(crate) async fn get(remote: &Remote, name: &str) -> String {
    let file = remote.find(name.as_bytes()).await.unwrap();
    remote.read_file(&file, &mut |_| Ok(())).await.unwrap().to_string()
}

/// Adds an observer to `options`. Returns the options, and the RDMA traffic of each completed call of
/// `procedure`.
fn watched(options: ClientOptions, procedure: &'static str) -> (ClientOptions, Arc<Mutex<Vec<Traffic>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let observer = Observer::new(move |report: &CallReport| {
        if let Some(traffic) = report.traffic
            && report.procedure.ends_with(procedure)
        {
            kept.lock().unwrap().push(traffic);
        }
    });
    (ClientOptions { observer: Some(observer), ..options }, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_procedure_of_nfs3_works() {
    let Some(guest) = server(Siw::Fixed) else { return };
    every_procedure_of(&guest).await;
}

pub(crate) async fn every_procedure_of(guest: &Guest) {
    for crc in [true, false] {
        let client = connect(guest, options(crc)).await;
        every_procedure(&nfs_v3::Client(client.into()), root(guest).await, &format!("crc-{crc}")).await;
    }
    let left = guest.run("ls -A /export");
    assert!(!left.contains("crc-"), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_any_size_arrive_and_come_back() {
    let Some(guest) = server(Siw::Fixed) else { return };
    files_of(&guest).await;
}

pub(crate) async fn files_of(guest: &Guest) {
    let mut random = Random::new();
    let mut sizes = vec![0, 1, 3, 4095, 4096, 4097, 1_048_575, 1_048_577, 64 << 20];
    sizes.extend((0..size(10, 40)).map(|_| random.length(size(8 << 20, 64 << 20))));
    for (index, size) in sizes.into_iter().enumerate() {
        let crc = index % 2 == 0;
        let (watching, writes) = watched(options(crc), "WRITE");
        let remote = mount(guest, watching).await;
        let sent = put(&remote, "file", &random.bytes(size)).await;
        let there = guest.run("sha256sum </export/file; stat -c %s /export/file");
        assert!(there.starts_with(&sent) && there.contains(&format!("\n{size}\n")), "{size} bytes: {there}");
        let (watching, reads) = watched(options(!crc), "READ");
        let remote = mount(guest, watching).await;
        assert_eq!(get(&remote, "/file").await, sent, "{size} bytes");
        if size > 4096 {
            assert!(writes.lock().unwrap().iter().any(|call| call.read_bytes > 4096), "{writes:?}");
            assert!(reads.lock().unwrap().iter().any(|call| call.write_bytes > 4096), "{reads:?}");
        }
        guest.settle();
        remote.connection().close();
    }
    guest.run("rm /export/file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_listing_uses_reply_chunks() {
    let Some(guest) = server(Siw::Fixed) else { return };
    a_directory_of(&guest).await;
}

pub(crate) async fn a_directory_of(guest: &Guest) {
    guest.run("mkdir /export/many; cd /export/many; for i in $(seq 700); do echo $i >name-of-file-$i; done");
    for crc in [true, false] {
        let (watching, listings) = watched(options(crc), "READDIRPLUS");
        let remote = mount(guest, watching).await;
        let folder = remote.find(b"/many").await.unwrap();
        let mut names: Vec<_> =
            remote.list(&folder).await.unwrap().into_iter().map(|item| item.name).collect();
        names.sort();
        let mut expected: Vec<_> =
            (1..=700).map(|index| Bytes::from(format!("name-of-file-{index}"))).collect();
        expected.sort();
        assert_eq!(names, expected);
        let listings = listings.lock().unwrap();
        assert!(listings.iter().any(|call| call.reply_chunk_bytes > 16_384), "{listings:?}");
    }
    guest.run("rm -r /export/many");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_too_long_for_a_message_is_fetched() {
    let Some(guest) = server(Siw::Fixed) else { return };
    a_long_call_to(&guest).await;
}

pub(crate) async fn a_long_call_to(guest: &Guest) {
    for crc in [true, false] {
        // With this `min_item`, no item gets a chunk. A call that does not fit inline uses a Position-Zero
        // chunk.
        let long = ClientOptions { min_item: usize::MAX, ..options(crc) };
        let (watching, writes) = watched(long, "WRITE");
        let remote = mount(guest, watching).await;
        let data = Random::new().bytes(70_001);
        let sent = put(&remote, "long", &data).await;
        assert!(guest.run("sha256sum </export/long; rm /export/long").starts_with(&sent));
        let writes = writes.lock().unwrap();
        assert!(writes.iter().all(|call| call.position_zero > 70_000 && call.read_chunks == 0), "{writes:?}");
        assert!(!writes.is_empty());
    }
}

/// If the outstanding calls exceed the granted credits, Linux can run out of posted Receives, which ends the
/// connection.
///
/// Requirement: R025, R030, R031
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_reach_but_never_exceed_the_grant() {
    let Some(guest) = server(Siw::Fixed) else { return };
    for crc in [true, false] {
        calls_in_flight(&guest, crc).await;
    }
}

async fn calls_in_flight(guest: &Guest, crc: bool) {
    let credits = in_flight(guest.ports().nfs_rdma, root(guest).await, crc).await;
    // Without TCP, the relay cannot observe the calls.
    let Some(credits) = credits else { return };
    assert_eq!(credits.max_granted, 64, "{credits:?}");
    // In the guest, the server may reply before this program sends the next call, so `max_in_flight` may be
    // less than 64.
    let max = credits.max_in_flight;
    assert!(max == 64 || inside().is_some() && max > 1, "{credits:?}");
}

/// Sends 1,000 concurrent calls to the server on port `server`. Returns the observed credits, or `None` if
/// the transport does not use TCP.
pub(crate) async fn in_flight(server: u16, object: NfsFh3, crc: bool) -> Option<Credits> {
    let credits = Arc::new(Mutex::new(Credits::default()));
    let seen = credits.clone();
    let watch = move |to_server: bool, bytes: &[u8]| seen.lock().unwrap().see(to_server, bytes);
    let relay = Relay::watched(server, Arc::new(Mutex::new(watch)));
    let watched = inside() != Some(Ours::Verbs(Device::Rxe));
    let mut options = options(crc);
    options.config.credits = 128;
    let client = nfs_v3::Client(connect_to(if watched { relay.port } else { server }, options).await);
    let call = |_| {
        let client = client.clone();
        tokio::spawn(async move { client.getattr(&Getattr3Args { object }).await })
    };
    for call in (0..1000).map(call).collect::<Vec<_>>() {
        let result = call.await.unwrap().unwrap();
        assert!(matches!(result, Getattr3Res::Nfs3Ok(_)), "{result:?}");
    }
    let counted = client.0.stats();
    assert_eq!((counted.credits, counted.session.connections), (64, 1), "{counted}");
    assert!(counted.credit_waits > 0, "{counted}");
    let credits = std::mem::take(&mut *credits.lock().unwrap());
    assert_eq!(credits.over_grant, 0, "{credits:?}");
    watched.then_some(credits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_one_after_another() {
    let Some(guest) = server(Siw::Fixed) else { return };
    one_after_another(&guest, if inside().is_some() { size(200, 1000) } else { 1000 }).await;
}

/// siw does not support markers.
#[tokio::test(flavor = "multi_thread")]
async fn markers_are_rejected() {
    let Some(guest) = server(Siw::Fixed) else { return };
    let server = SocketAddr::from((address(), guest.ports().nfs_rdma));
    let with = |markers| IwarpOptions { markers, ..options(true).iwarp };
    let refused = iwarp::connect(server, &[], 4096, &with(true)).await;
    assert!(matches!(refused, Err(IwarpError::Refused { .. })), "{refused:?}");
    drop(iwarp::connect(server, &[], 4096, &with(false)).await.expect("a connection without markers"));
    nfs_v3::Client(connect(&guest, options(true)).await).null().await.expect("a call");
}

/// Unmodified siw does not process a first message that arrives before siw sets the socket callbacks. The
/// client must not wait forever for the reply.
#[tokio::test(flavor = "multi_thread")]
async fn no_connection_to_stock_siw_hangs() {
    let Some(guest) = server(Siw::Stock) else { return };
    one_after_another(&guest, 500).await;
}

pub(crate) async fn one_after_another(guest: &Guest, count: usize) {
    connections_to(guest.ports().nfs_rdma, root(guest).await, count).await;
}

pub(crate) async fn connections_to(server: u16, object: NfsFh3, count: usize) {
    for index in 0..count {
        let client = nfs_v3::Client(connect_to(server, options(index % 2 == 0)).await);
        client.null().await.unwrap_or_else(|error| panic!("connection {index}: {error}"));
        let result = client.getattr(&Getattr3Args { object }).await.unwrap();
        assert!(matches!(result, Getattr3Res::Nfs3Ok(_)), "connection {index}: {result:?}");
        client.0.close();
    }
}
