//! The contents of a capture, and the errors if the capture file cannot be written.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use etherparse::{NetSlice, SlicedPacket, TcpSlice, TransportSlice};
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::provider::iwarp::{self, Capture, CaptureFile, IwarpListener};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ServeError, ServerOptions};

use echo::{Echo, EchoBlob, EchoServer, blob};

/// One reassembled direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    started: Option<u32>,
    octets: Vec<u8>,
    ended: bool,
}

/// Returns both directions of every connection, keyed by source and destination address. Fails if a direction
/// has a gap.
fn streams(capture: &[u8]) -> BTreeMap<(SocketAddr, SocketAddr), Stream> {
    let mut streams = BTreeMap::<_, Stream>::new();
    let mut rest = &capture[24..];
    while let Some((head, after)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let (packet, next) = after.split_at(len);
        rest = next;
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
        let (from, to) = match sliced.net.unwrap() {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Arp(_) => panic!("no IP"),
        };
        let flow = (SocketAddr::new(from, tcp.source_port()), SocketAddr::new(to, tcp.destination_port()));
        let acknowledged = streams.get(&(flow.1, flow.0)).map(next_octet);
        assert!(tcp.ack() == acknowledged.is_some(), "only the first packet has no acknowledgment");
        assert!(acknowledged.is_none_or(|next| next == tcp.acknowledgment_number()), "{flow:?}");
        streams.entry(flow).or_default().take(&tcp);
    }
    assert!(rest.is_empty(), "the file ends with an incomplete packet header");
    streams
}

fn next_octet(stream: &Stream) -> u32 {
    let len = u32::try_from(stream.octets.len()).unwrap();
    stream.started.unwrap().wrapping_add(len + u32::from(stream.ended))
}

impl Stream {
    fn take(&mut self, tcp: &TcpSlice<'_>) {
        assert!(!self.ended, "data after the end");
        if tcp.syn() {
            assert_eq!(self.started.replace(tcp.sequence_number().wrapping_add(1)), None);
        } else {
            assert_eq!(tcp.sequence_number(), next_octet(self), "a gap");
        }
        self.octets.extend_from_slice(tcp.payload());
        self.ended = tcp.fin();
    }
}

fn into(file: &CaptureFile) -> iwarp::IwarpOptions {
    iwarp::IwarpOptions { capture: Capture::File(file.clone()), ..iwarp::IwarpOptions::default() }
}

async fn serve(options: iwarp::IwarpOptions) -> SocketAddr {
    let options = ServerOptions { iwarp: options, ..ServerOptions::of::<Echo>() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(EchoServer);
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    address
}

async fn client(address: SocketAddr, options: iwarp::IwarpOptions) -> Client {
    let options = ClientOptions { iwarp: options, ..ClientOptions::of::<Echo>() };
    Client::connect_with(address, options).await.unwrap()
}

/// Both peers are in this process and write to one file, which contains each connection once.
#[tokio::test]
async fn each_direction_is_captured_completely_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("both.pcap");
    let file = CaptureFile::create(&path).unwrap();
    let address = serve(into(&file)).await;
    let data = blob(3, 300_000);
    for _ in 0..2 {
        let client = client(address, into(&file)).await;
        assert_eq!(client.call::<EchoBlob>(&data).await.unwrap(), data);
        client.drain().await;
    }
    assert!(file.is_complete());
    let streams = streams(&fs::read(&path).unwrap());
    assert_eq!(streams.len(), 4, "two connections, two directions each");
    let mut bases = Vec::new();
    for ((from, _), stream) in &streams {
        let key: &[u8] = if *from == address { b"MPA ID Rep Frame" } else { b"MPA ID Req Frame" };
        assert!(stream.octets.starts_with(key));
        assert!(stream.octets.len() > 300_000, "a direction lacks the data");
        assert!(stream.ended || *from == address, "the client did not close");
        bases.push(stream.started.unwrap());
    }
    bases.dedup();
    bases.sort_unstable();
    bases.dedup();
    assert_eq!(bases.len(), 2, "the connections start at different sequence numbers");
}

/// A process can be killed at any time, so octets must be captured before they are sent.
#[tokio::test(flavor = "multi_thread")]
async fn octets_are_captured_before_they_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.pcap");
    let address = serve(into(&CaptureFile::create(&path).unwrap())).await;
    let peer = std::thread::spawn(move || {
        for round in 1..=300 {
            let mut socket = std::net::TcpStream::connect(address).unwrap();
            // An MPA request of revision 1 without private data (RFC 5044 section 7.1).
            socket.write_all(b"MPA ID Req Frame\x40\x01\0\0").unwrap();
            let mut reply = [0; 20];
            socket.read_exact(&mut reply).unwrap();
            let capture = fs::read(&path).unwrap();
            let replies = capture.windows(16).filter(|octets| octets == b"MPA ID Rep Frame").count();
            assert_eq!(replies, round);
        }
    });
    tokio::task::spawn_blocking(|| peer.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_peer_without_mpa_is_captured() {
    use tokio::io::AsyncWriteExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("unrelated.pcap");
    let file = CaptureFile::create(&path).unwrap();
    let listener = IwarpListener::bind("[::1]:0", into(&file)).await.unwrap();
    let mut unrelated = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    unrelated.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert!(listener.accept().await.unwrap().request().await.is_err());
    let streams = streams(&fs::read(&path).unwrap());
    let first_octets: Vec<_> = streams.values().map(|stream| stream.octets.first().copied()).collect();
    assert!(first_octets.contains(&Some(b'G')) && first_octets.contains(&None), "{first_octets:?}");
}

#[tokio::test]
async fn capture_errors_precede_the_first_send() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nowhere").join("a.pcap");
    let error = CaptureFile::create(&missing).unwrap_err().to_string();
    assert!(error.contains("nowhere/a.pcap cannot be written: No such file"), "{error}");
    if Path::new("/dev/full").exists() {
        let error = CaptureFile::create("/dev/full").unwrap_err().to_string();
        assert!(error.contains("/dev/full cannot be written: No space left"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_capture_is_private_and_has_one_writer() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let first = CaptureFile::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let error = CaptureFile::create(&path).unwrap_err().to_string();
    assert!(error.contains("another capture is being written") && error.contains("%p"), "{error}");
    drop(first);
    fs::write(&path, vec![7; 4096]).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    drop(CaptureFile::create(&path).unwrap());
    assert_eq!(fs::read(&path).unwrap().len(), 24, "the file contains only its header");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

/// A test cannot safely change its own environment, so this test runs itself as the server in another
/// process.
#[tokio::test]
async fn the_environment_selects_a_capture() {
    let variable = iwarp::CAPTURE_VARIABLE;
    if let Some(name) = std::env::var_os(variable) {
        let own = std::process::id().to_string();
        match Server::bind("127.0.0.1:0").await {
            Ok(_) => assert!(Path::new(&name.to_str().unwrap().replace("%p", &own)).exists()),
            Err(ServeError::Capture(error)) => assert_eq!(error.path, Path::new(&name)),
            Err(other) => panic!("{other}"),
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let again = |name: &str| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_environment_selects_a_capture"]).env(variable, dir.path().join(name));
        assert!(command.output().unwrap().status.success(), "{name}");
    };
    again("of-%p.pcap");
    let written: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(written.len(), 1);
    assert!(!written[0].to_str().unwrap().contains('%'), "{written:?}");
    again("nowhere/at-all.pcap");
}
