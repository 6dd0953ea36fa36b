//! Connections over an RDMA device, used through the provider's interface. Most tests run only if
//! `RPCRDMA_VERBS` is the address of a device. Some tests in `verbs/servers.rs` need other variables.
//! `tests/interop/verbs.rs` runs the tests in a virtual machine (see `tests/lab`).
#![cfg(feature = "verbs")]

#[path = "verbs/endings.rs"]
mod endings;
#[path = "verbs/servers.rs"]
mod servers;
#[path = "verbs/windows.rs"]
mod windows;

use std::fs::File;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_mount3::{Dirpath, Mountres3, mount_v3};
use rpcrdma_nfs3::{
    Diropargs3, Lookup3Args, Lookup3Res, Lookup3Resok, NfsFh3, Read3Args, Read3Res, StableHow, Write3Args,
    Write3Res, nfs_v3,
};
use rpcrdma_runtime::program::{AuthSys, Caller, Credential};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment, Token};
use rpcrdma_runtime::provider::Connection;
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{ClientOptions, ServerOptions, TcpClient, TcpClientOptions};
use rpcrdma_sim::{Args, Echo, ResultLengths};
use rpcrdma_verbs::{
    MemoryWindows, VerbsConnection, VerbsConnector, VerbsError, VerbsListener, VerbsOptions, VerbsRequest,
    connect,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

const RECEIVE: u32 = 4096;
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the device's address. Without a device, records that the test did not run.
fn device() -> Option<SocketAddr> {
    let Ok(address) = std::env::var("RPCRDMA_VERBS") else {
        not_run::not_run("RPCRDMA_VERBS is not set: no RDMA device");
        return None;
    };
    let ip: IpAddr = address.parse().expect("an address in RPCRDMA_VERBS");
    Some(SocketAddr::new(ip, 0))
}

async fn listener(at: SocketAddr, options: VerbsOptions) -> VerbsListener {
    VerbsListener::bind(at, options).await.expect("a device")
}

async fn pair(at: SocketAddr, options: VerbsOptions) -> (VerbsConnection, VerbsConnection) {
    pair_for(at, RECEIVE, [options; 2]).await
}

/// Like [`pair`], but with a given Receive size and separate options for each peer.
async fn pair_for(
    at: SocketAddr,
    receive: u32,
    [local, peer]: [VerbsOptions; 2],
) -> (VerbsConnection, VerbsConnection) {
    let listener = VerbsListener::bind(at, peer).await.expect("a device");
    let address = listener.local_addr().expect("a local address");
    // Panic at once on a failure, without waiting for the peer.
    let local = async { connect(address, b"please", receive, &local).await.expect("a connection") };
    let peer = async {
        listener.accept().await.expect("a request").accept(b"yes", receive).await.expect("accepted")
    };
    timeout(LIMIT, async { tokio::join!(local, peer) }).await.expect("no timeout")
}

async fn next(end: &mut VerbsConnection) -> Completion {
    timeout(LIMIT, poll_fn(|cx| end.poll_completion(cx))).await.expect("a completion")
}

fn is_received(completion: &Completion) -> bool {
    matches!(completion, Completion::Received { .. })
}

fn is_read(completion: &Completion) -> bool {
    matches!(completion, Completion::ReadDone { .. })
}

async fn drive(
    waiting: &mut VerbsConnection,
    other: &mut VerbsConnection,
    mut is_expected: impl FnMut(&Completion) -> bool,
) -> Completion {
    loop {
        tokio::select! {
            completion = next(waiting) => {
                if is_expected(&completion) {
                    return completion;
                }
                assert!(!matches!(completion, Completion::Closed { .. }), "{completion:?}");
            }
            completion = poll_fn(|cx| other.poll_completion(cx)) => {
                assert!(!matches!(completion, Completion::Closed { .. }), "the other peer: {completion:?}");
            }
        }
    }
}

async fn register(end: &mut VerbsConnection, memory: Memory) -> Segment {
    end.submit(Action::Register { token: Token(1), memory });
    match next(end).await {
        Completion::Registered { segment, .. } => segment,
        other => panic!("{other:?}"),
    }
}

/// Sends a message. Once the message has arrived, the peer may access the registered memory.
async fn advertise(local: &mut VerbsConnection, peer: &mut VerbsConnection) {
    peer.submit(Action::PostReceives { count: 1 });
    local.submit(Action::Send {
        token: Token(0),
        message: vec![Bytes::from_static(b"take")],
        invalidate: None,
    });
    drive(peer, local, is_received).await;
}

async fn fenced(end: &mut VerbsConnection) -> Bytes {
    loop {
        match next(end).await {
            Completion::Invalidated { memory: Memory::Sink(memory), .. } => return memory.freeze(),
            Completion::Closed { reason, .. } => panic!("{reason:?}"),
            _ => {}
        }
    }
}

async fn closed(end: &mut VerbsConnection) -> (CloseReason, Vec<Memory>) {
    loop {
        if let Completion::Closed { reason, returned } = next(end).await {
            return (reason, returned);
        }
    }
}

#[tokio::test]
async fn private_data_may_be_padded_in_both_directions() {
    let Some(at) = device() else { return };
    let (local, peer) = pair(at, VerbsOptions::default()).await;
    assert!(peer.info().private_data.starts_with(b"please"), "{:?}", peer.info());
    assert!(peer.info().private_data[6..].iter().all(|octet| *octet == 0));
    assert!(local.info().private_data.starts_with(b"yes"), "{:?}", local.info());
    assert_eq!(local.info().peer.map(|peer| peer.ip()), Some(at.ip()));
}

/// Returns options for each way to advertise memory: regions, and windows if the device has them.
async fn ways(at: SocketAddr) -> Vec<VerbsOptions> {
    let name = name(at).await;
    let devices = rpcrdma_verbs::devices().expect("devices");
    let windows = devices.iter().any(|device| device.name == name && device.windows);
    assert!(windows || !name.starts_with("rxe"), "rxe supports windows");
    let ways =
        if windows { &[MemoryWindows::Never, MemoryWindows::Always][..] } else { &[MemoryWindows::Always] };
    ways.iter().map(|windows| VerbsOptions { windows: *windows, ..VerbsOptions::default() }).collect()
}

#[tokio::test]
async fn a_rejection_has_its_private_data() {
    let Some(at) = device() else { return };
    let listener = listener(at, VerbsOptions::default()).await;
    let address = listener.local_addr().expect("a local address");
    let rejecting = async { listener.accept().await.expect("a request").reject(b"no").await };
    let options = VerbsOptions::default();
    let (local, rejected) = tokio::join!(connect(address, b"", RECEIVE, &options), rejecting);
    rejected.expect("refused");
    match local {
        Err(VerbsError::Refused { private_data }) => assert!(private_data.starts_with(b"no")),
        other => panic!("{other:?}"),
    }
}

/// The environment variable that is set only in the child process, which runs
/// [`a_listener_without_descriptors`].
const LISTENS: &str = "RPCRDMA_VERBS_LISTENS";

/// A process without free file descriptors cannot create an event channel for a connection, so it rejects the
/// peer. The process accepts peers again once file descriptors are free.
#[tokio::test]
async fn a_listener_without_descriptors() {
    if std::env::var_os(LISTENS).is_none() {
        // This test runs only in the child process of another test.
        return;
    }
    let Some(at) = device() else { return };
    let listener = listener(at, VerbsOptions::default()).await;
    eprintln!("at {}", listener.local_addr().expect("a local address"));
    let held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).take(1 << 20).collect();
    let refused = async {
        while listener.take_refused() == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        request = listener.accept() => panic!("with {} descriptors held: {request:?}", held.len()),
        () = refused => drop(held),
    }
    let _connection =
        listener.accept().await.expect("a request").accept(b"yes", RECEIVE).await.expect("accepted");
    assert_eq!(listener.take_refused(), 0);
}

#[tokio::test]
async fn a_connection_that_cannot_be_adopted_is_rejected_alone() {
    if device().is_none() {
        return;
    }
    let mut command = tokio::process::Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "a_listener_without_descriptors", "--nocapture"]).env(LISTENS, "1");
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("a child process");
    let mut output = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let line = timeout(LIMIT, output.next_line()).await.expect("no timeout").expect("text");
    let address = line.as_deref().and_then(|line| line.strip_prefix("at ")).expect("the child's address");
    let address = address.parse().expect("an address");
    // The child occupies all descriptors before it accepts peers.
    let first = connect(address, b"", RECEIVE, &VerbsOptions::default()).await;
    assert!(matches!(first, Err(VerbsError::Refused { .. })), "{first:?}");
    // The child checks every 20 ms whether it has rejected a peer, and then releases its descriptors.
    let again = async {
        loop {
            match connect(address, b"", RECEIVE, &VerbsOptions::default()).await {
                Err(VerbsError::Refused { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                other => break other,
            }
        }
    };
    let second = timeout(LIMIT, again).await.expect("no timeout").expect("a connection");
    assert!(second.info().private_data.starts_with(b"yes"));
    assert!(timeout(LIMIT, child.wait()).await.expect("no timeout").expect("an exit status").success());
}

#[tokio::test]
async fn connecting_without_a_listener_fails() {
    let Some(at) = device() else { return };
    let address = listener(at, VerbsOptions::default()).await.local_addr().expect("a local address");
    let local = connect(address, b"", RECEIVE, &VerbsOptions::default()).await;
    assert!(local.is_err(), "{local:?}");
}

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The original port range, which is restored on drop.
struct RestoreRange(String);

impl Drop for RestoreRange {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(RANGE, &self.0) {
            eprintln!("cannot restore {RANGE} to {:?}: {error}", self.0);
        }
    }
}

/// The kernel chooses the ports of initiators and of listeners without a fixed port. With iWARP, another
/// program may already use the chosen port for TCP.
#[tokio::test]
async fn ports_in_use_by_tcp_are_skipped() {
    let Some(at) = device() else { return };
    let Ok(original) = std::fs::read_to_string(RANGE).map(RestoreRange) else {
        return not_run::not_run(format_args!("{RANGE} cannot be read"));
    };
    if std::fs::write(RANGE, "40000 40255").is_err() {
        return not_run::not_run(format_args!("only root may change {RANGE}"));
    }
    let taken: Vec<_> = (40_000..40_064).filter_map(|port| TcpListener::bind((at.ip(), port)).ok()).collect();
    let mut ends = Vec::new();
    for _ in 0..20 {
        ends.push(pair(at, VerbsOptions::default()).await);
    }
    drop((taken, ends, original));
}

#[tokio::test]
async fn read_depths_are_the_minimum_of_both_peers() {
    let Some(at) = device() else { return };
    let depths = |ird, ord| VerbsOptions { ird, ord, ..VerbsOptions::default() };
    let (local, peer) = pair(at, depths(3, 5)).await;
    assert_eq!((local.info().ord, local.info().ird), (3, 3));
    assert_eq!((peer.info().ord, peer.info().ird), (3, 3));
    // In each direction, the depth is the minimum of one peer's ORD and the other peer's IRD.
    let (local, peer) = pair_for(at, RECEIVE, [depths(6, 5), depths(2, 4)]).await;
    // siw grants any requested depth, regardless of its settings. siw does not report the depth reliably to
    // the initiator.
    let ord = if name(at).await.starts_with("siw") { 4 } else { 2 };
    assert_eq!(local.info().ord, ord);
    assert!(local.info().ird >= 4, "{:?}", local.info());
    assert_eq!((peer.info().ord, peer.info().ird), (4, 2));
}

/// RDMA Writes of up to 8 KiB, and RDMA Reads of up to 8 KiB except over iWARP, use a local buffer that stays
/// registered and is never advertised. All other data uses memory that is registered for one operation.
#[tokio::test]
async fn short_data_is_read_and_written() {
    let Some(at) = device() else { return };
    let data: Bytes = (0..20_000u32).map(|index| (index ^ (index >> 7)).to_le_bytes()[0]).collect();
    let (mut local, mut peer) = pair(at, VerbsOptions::default()).await;
    let source = register(&mut local, Memory::Source(data.clone())).await;
    let sink = register(&mut local, Memory::Sink(BytesMut::zeroed(data.len()))).await;
    advertise(&mut local, &mut peer).await;
    let piece = |of: Segment, skip: usize, length: usize| Segment {
        handle: of.handle,
        length: u32::try_from(length).expect("short"),
        offset: of.offset + skip as u64,
    };
    // An empty RDMA Read completes at once.
    let pieces = [(5, 0), (0, 1), (7, 4095), (3, 4096), (1001, 8192), (1002, 8193), (0, 20_000)];
    // All Reads are outstanding at the same time, so each Read needs its own local memory.
    for (token, (skip, length)) in (10..).zip(pieces) {
        peer.submit(Action::read(Token(token), piece(source, skip, length)));
    }
    let mut written = vec![0; data.len()];
    for (token, (skip, length)) in (10..).zip(pieces) {
        let read = drive(&mut peer, &mut local, is_read).await;
        let Completion::ReadDone { token: of, data: read } = read else { unreachable!() };
        assert!(of == Token(token) && read == data[skip..skip + length], "{length} octets at {skip}");
        // Write the data as far from the end of the sink as it was from the start of the source. The sink
        // initially contains zeros.
        let to = data.len() - skip - length;
        peer.submit(Action::Write { token: Token(0), sink: piece(sink, to, length), data: read });
        written[to..to + length].copy_from_slice(&data[skip..skip + length]);
    }
    peer.submit(Action::Send { token: Token(1), message: vec![], invalidate: None });
    drive(&mut local, &mut peer, is_received).await;
    local.submit(Action::Invalidate { token: Token(2), handle: sink.handle });
    assert!(fenced(&mut local).await == written);
}

#[tokio::test]
async fn memory_is_read_and_written_within_its_bounds_only() {
    let Some(at) = device() else { return };
    for (options, long) in ways(at).await.into_iter().flat_map(|options| [(options, false), (options, true)])
    {
        let data: Bytes = (0..300_000u32).map(|index| (index ^ (index >> 8)).to_le_bytes()[0]).collect();
        let (mut local, mut peer) = pair(at, options).await;
        let source = register(&mut local, Memory::Source(data.clone())).await;
        let sink = register(&mut local, Memory::Sink(BytesMut::zeroed(data.len()))).await;
        advertise(&mut local, &mut peer).await;
        peer.submit(Action::read(Token(2), source));
        let read = drive(&mut peer, &mut local, is_read).await;
        let Completion::ReadDone { data: read, .. } = read else { unreachable!() };
        assert!(read == data);
        peer.submit(Action::Write { token: Token(3), sink, data: data.clone() });
        peer.submit(Action::Send { token: Token(4), message: vec![], invalidate: None });
        let completion = drive(&mut local, &mut peer, is_received).await;
        assert!(
            matches!(&completion, Completion::Received { message, .. } if message.is_empty()),
            "{completion:?}"
        );
        local.submit(Action::Invalidate { token: Token(5), handle: sink.handle });
        assert!(fenced(&mut local).await == data);
        if long {
            let beyond = Segment { length: source.length + 1, ..source };
            peer.submit(Action::read(Token(6), beyond));
        } else {
            peer.submit(Action::Write { token: Token(6), sink, data: data.slice(..10) });
        }
        // Either peer may be the first to learn that the device closed the connection.
        let ((_, returned), _) = tokio::join!(closed(&mut local), closed(&mut peer));
        assert!(matches!(&returned[..], [Memory::Source(returned)] if *returned == data), "{returned:?}");
    }
}

/// The kernel pins each page of a region, so the provider registers long regions on other threads.
#[tokio::test]
async fn long_regions_transfer_like_short_ones() {
    let Some(at) = device() else { return };
    let data: Bytes =
        (0..1_500_000u32).flat_map(|index| index.wrapping_mul(77_777_777).to_be_bytes()).collect();
    for options in ways(at).await {
        long_memory(pair(at, options).await, &data).await;
    }
}

async fn long_memory((mut local, mut peer): (VerbsConnection, VerbsConnection), data: &Bytes) {
    let source = register(&mut local, Memory::Source(data.clone())).await;
    let sink = register(&mut local, Memory::Sink(BytesMut::zeroed(data.len()))).await;
    advertise(&mut local, &mut peer).await;
    peer.submit(Action::read(Token(2), source));
    let read = drive(&mut peer, &mut local, is_read).await;
    assert!(matches!(read, Completion::ReadDone { data: read, .. } if read == *data));
    peer.submit(Action::Write { token: Token(3), sink, data: data.clone() });
    peer.submit(Action::Send { token: Token(4), message: vec![], invalidate: None });
    drive(&mut local, &mut peer, is_received).await;
    local.submit(Action::Invalidate { token: Token(5), handle: sink.handle });
    assert!(fenced(&mut local).await == *data);
    // Memory is also returned if its registration completes during the close.
    local.submit(Action::Register { token: Token(6), memory: Memory::Sink(BytesMut::zeroed(data.len())) });
    local.submit(Action::Close { reason: CloseReason::Local });
    let ((_, returned), _) = tokio::join!(closed(&mut local), closed(&mut peer));
    assert_eq!(returned.iter().map(Memory::len).collect::<Vec<_>>(), [data.len(); 2]);
}

/// The sizes are just below, at and just above the page size. siw immediately copies data shorter than a
/// page, but may read data of a page or more from memory when TCP sends it. If the provider reused this
/// memory too early, siw would send the new contents.
#[tokio::test]
async fn data_is_captured_at_submission() {
    const EACH: usize = 800;
    let Some(at) = device() else { return };
    for size in [4095, 4096, 4097] {
        let (mut local, mut peer) = pair(at, VerbsOptions::default()).await;
        for round in 0..4 {
            let fill = |index: usize| ((round * EACH + index) % 251).to_be_bytes()[7] ^ 0x5a;
            let sink = register(&mut local, Memory::Sink(BytesMut::zeroed(EACH * size))).await;
            for index in 0..EACH {
                let skip = u32::try_from(index * size).expect("short");
                let length = u32::try_from(size).expect("short");
                let sink = Segment { offset: sink.offset + u64::from(skip), length, ..sink };
                let data = Bytes::from(vec![fill(index); size]);
                peer.submit(Action::Write { token: Token(2), sink, data });
            }
            peer.submit(Action::Send { token: Token(3), message: vec![], invalidate: None });
            drive(&mut local, &mut peer, is_received).await;
            local.submit(Action::PostReceives { count: 1 });
            local.submit(Action::Invalidate { token: Token(4), handle: sink.handle });
            let Completion::Invalidated { memory: Memory::Sink(memory), .. } = next(&mut local).await else {
                panic!("expected the sink")
            };
            for (index, piece) in memory.chunks(size).enumerate() {
                assert!(
                    piece.iter().all(|octet| *octet == fill(index)),
                    "{size} octets, round {round}, {index}"
                );
            }
        }
    }
}

#[tokio::test]
async fn messages_of_any_form_arrive_complete() {
    let Some(at) = device() else { return };
    // The default maximum of inline data in a work request, no inline data, and a maximum above that of any
    // device.
    for inline in [VerbsOptions::default().inline, 0, 1 << 20] {
        let options = VerbsOptions { receives: 4, inline, ..VerbsOptions::default() };
        messages_arrive(pair_for(at, 262_144, [options; 2]).await, options.receives).await;
    }
}

async fn messages_arrive((mut local, mut peer): (VerbsConnection, VerbsConnection), receives: u32) {
    // The connection setup has already posted these Receives, so this request posts no further Receives.
    peer.submit(Action::PostReceives { count: receives });
    // Short and long buffers, more buffers than fit in a work request, and no buffers.
    for sizes in
        [&[][..], &[1], &[0, 5, 0], &[100, 4000], &[28, 100_000, 3], &[9000; 7], &[1; 300], &[262_144]]
    {
        let message: Vec<Bytes> =
            sizes.iter().zip((0..=255).cycle()).map(|(size, fill)| Bytes::from(vec![fill; *size])).collect();
        let expected = message.concat();
        local.submit(Action::Send { token: Token(1), message, invalidate: None });
        let completion = drive(&mut peer, &mut local, is_received).await;
        let Completion::Received { message, invalidated } = completion else {
            panic!("{sizes:?}: {completion:?}")
        };
        assert!(message == expected && invalidated.is_none(), "{sizes:?}");
        peer.submit(Action::PostReceives { count: 1 });
    }
}

#[tokio::test]
async fn short_messages_submitted_together_arrive_in_order() {
    let Some(at) = device() else { return };
    for inline in [VerbsOptions::default().inline, 0] {
        let options = VerbsOptions { receives: 90, inline, ..VerbsOptions::default() };
        let (mut local, mut peer) = pair(at, options).await;
        let messages: Vec<Bytes> =
            (0..80).map(|number| Bytes::from(vec![number; 3 * usize::from(number)])).collect();
        for (token, message) in (1..).zip(&messages) {
            local.submit(Action::Send {
                token: Token(token),
                message: vec![message.clone()],
                invalidate: None,
            });
        }
        let sending = async {
            let mut sent = Vec::new();
            while sent.len() < messages.len() {
                if let Completion::Sent { token: Token(token) } = next(&mut local).await {
                    sent.push(token);
                }
            }
            sent
        };
        let receiving = async {
            for expected in &messages {
                match next(&mut peer).await {
                    Completion::Received { message, .. } => assert!(message == expected),
                    other => panic!("{other:?}"),
                }
            }
        };
        let (sent, ()) = tokio::join!(sending, receiving);
        assert!(sent.into_iter().eq(1..=80), "Sends complete in order");
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// With `spin`, a pending poll wakes its own task. Without `spin`, the task waits for the device.
#[tokio::test]
async fn a_connection_can_be_polled_without_a_wake_up() {
    let Some(at) = device() else { return };
    for spin in [Duration::ZERO, Duration::from_secs(3600)] {
        let options = VerbsOptions { spin, ..VerbsOptions::default() };
        let (mut local, mut peer) = pair(at, options).await;
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        for _ in 0..20 {
            assert!(local.poll_completion(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), if spin.is_zero() { 0 } else { 20 });
        for number in 0..20 {
            let message = vec![Bytes::from(vec![number; 100])];
            peer.submit(Action::Send { token: Token(1), message, invalidate: None });
            let is_expected = |completion: &Completion| matches!(completion, Completion::Received { message, .. } if message[..] == [number; 100]);
            drive(&mut local, &mut peer, is_expected).await;
        }
    }
}

async fn name(at: SocketAddr) -> String {
    let found = rpcrdma_verbs::device_for(SocketAddr::new(at.ip(), 1), LIMIT).await;
    found.expect("a route").expect("a device")
}

/// Linux refuses to register read-only memory, such as constants, for memory windows.
#[tokio::test]
async fn constants_can_be_advertised() {
    static DATA: [u8; 10_000] = [7; 10_000];
    let Some(at) = device() else { return };
    for options in ways(at).await {
        let (mut local, mut peer) = pair(at, options).await;
        let source = register(&mut local, Memory::Source(Bytes::from_static(&DATA))).await;
        advertise(&mut local, &mut peer).await;
        peer.submit(Action::read(Token(2), source));
        let read = drive(&mut peer, &mut local, is_read).await;
        assert!(matches!(read, Completion::ReadDone { data, .. } if data == DATA[..]));
        // The peer must not write to a constant.
        let data = Bytes::from_static(&[1; 10]);
        peer.submit(Action::Write { token: Token(3), sink: Segment { length: 10, ..source }, data });
        let ((_, returned), _) = tokio::join!(closed(&mut local), closed(&mut peer));
        assert!(matches!(&returned[..], [Memory::Source(returned)] if *returned == DATA[..]), "{returned:?}");
    }
}

#[tokio::test]
async fn devices_are_listed() {
    let Some(at) = device() else { return };
    let devices = rpcrdma_verbs::devices().expect("devices");
    let own = name(at).await;
    let device = devices.iter().find(|device| device.name == own).expect("a listed device");
    assert!(device.ports.iter().any(|port| port.active && port.max_message > 0), "{device:?}");
    assert!(device.ird > 0 && device.max_work_requests > 0 && device.max_region > 1 << 20, "{device:?}");
    assert!(rpcrdma_verbs::serves(at));
    let documentation = "192.0.2.1:1".parse().expect("an address");
    assert!(!rpcrdma_verbs::serves(documentation));
}
