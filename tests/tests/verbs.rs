//! Connections over an RDMA device, at the border between engine and provider. They run where `RPCRDMA_VERBS`
//! has the address of a device: in the lab's guest, for `tests/interop/verbs.rs`.
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
use rpcrdma_sim::{Args, Echo, Want};
use rpcrdma_verbs::{
    MemoryWindows, VerbsConnection, VerbsConnector, VerbsError, VerbsListener, VerbsOptions, VerbsRequest,
    connect,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

const RECEIVE: u32 = 4096;
const LIMIT: Duration = Duration::from_secs(60);

/// The device's address; `None`, and a word about it, where there is none.
fn device() -> Option<SocketAddr> {
    let Ok(address) = std::env::var("RPCRDMA_VERBS") else {
        not_run::not_run("RPCRDMA_VERBS is not set: no RDMA device");
        return None;
    };
    let ip: IpAddr = address.parse().expect("RPCRDMA_VERBS: an address");
    Some(SocketAddr::new(ip, 0))
}

async fn listener(at: SocketAddr, options: VerbsOptions) -> VerbsListener {
    VerbsListener::bind(at, options).await.expect("a device")
}

/// Both sides of a connection: the initiator, and the responder.
async fn pair(at: SocketAddr, options: VerbsOptions) -> (VerbsConnection, VerbsConnection) {
    pair_for(at, RECEIVE, [options; 2]).await
}

/// The same for messages of another length, and with options for each side.
async fn pair_for(
    at: SocketAddr,
    receive: u32,
    [near, far]: [VerbsOptions; 2],
) -> (VerbsConnection, VerbsConnection) {
    let listener = VerbsListener::bind(at, far).await.expect("a device");
    let address = listener.local_addr().expect("an address");
    // Every failure is reported at once, without waiting for the peer.
    let near = async { connect(address, b"please", receive, &near).await.expect("a connection") };
    let far = async {
        listener.accept().await.expect("a request").accept(b"yes", receive).await.expect("accepted")
    };
    timeout(LIMIT, async { tokio::join!(near, far) }).await.expect("two ends")
}

async fn next(end: &mut VerbsConnection) -> Completion {
    timeout(LIMIT, poll_fn(|cx| end.poll_completion(cx))).await.expect("a completion")
}

/// The completions of both sides until one of them has the expected one.
async fn drive(
    waiting: &mut VerbsConnection,
    other: &mut VerbsConnection,
    mut is_it: impl FnMut(&Completion) -> bool,
) -> Completion {
    loop {
        tokio::select! {
            heard = next(waiting) => {
                if is_it(&heard) {
                    return heard;
                }
                assert!(!matches!(heard, Completion::Closed { .. }), "{heard:?}");
            }
            heard = poll_fn(|cx| other.poll_completion(cx)) => {
                assert!(!matches!(heard, Completion::Closed { .. }), "the other end: {heard:?}");
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

/// Sends a message that advertises memory: from then on the peer can access it.
async fn tell(near: &mut VerbsConnection, far: &mut VerbsConnection) {
    far.submit(Action::PostReceives { count: 1 });
    near.submit(Action::Send {
        token: Token(0),
        message: vec![Bytes::from_static(b"take")],
        invalidate: None,
    });
    drive(far, near, |heard| matches!(heard, Completion::Received { .. })).await;
}

/// The contents of a sink that this side has fenced, once the fence completes.
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
    let (near, far) = pair(at, VerbsOptions::default()).await;
    assert!(far.info().private_data.starts_with(b"please"), "{:?}", far.info());
    assert!(far.info().private_data[6..].iter().all(|octet| *octet == 0));
    assert!(near.info().private_data.starts_with(b"yes"), "{:?}", near.info());
    assert_eq!(near.info().peer.map(|peer| peer.ip()), Some(at.ip()));
}

/// How memory can be advertised: by regions, and by windows if the device has them.
async fn ways(at: SocketAddr) -> Vec<VerbsOptions> {
    let name = name(at).await;
    let devices = rpcrdma_verbs::devices().expect("devices");
    let windows = devices.iter().any(|device| device.name == name && device.windows);
    assert!(windows || !name.starts_with("rxe"), "rxe has windows");
    let ways =
        if windows { &[MemoryWindows::Never, MemoryWindows::Always][..] } else { &[MemoryWindows::Always] };
    ways.iter().map(|windows| VerbsOptions { windows: *windows, ..VerbsOptions::default() }).collect()
}

#[tokio::test]
async fn a_refusal_has_its_private_data() {
    let Some(at) = device() else { return };
    let listener = listener(at, VerbsOptions::default()).await;
    let address = listener.local_addr().expect("an address");
    let rejecting = async { listener.accept().await.expect("a request").reject(b"no").await };
    let options = VerbsOptions::default();
    let (near, rejected) = tokio::join!(connect(address, b"", RECEIVE, &options), rejecting);
    rejected.expect("refused");
    match near {
        Err(VerbsError::Refused { private_data }) => assert!(private_data.starts_with(b"no")),
        other => panic!("{other:?}"),
    }
}

/// Set for the child process that runs [`a_listener_without_descriptors`].
const LISTENS: &str = "RPCRDMA_VERBS_LISTENS";

/// A process without free descriptors cannot create a channel for a peer, so it rejects the peer. It
/// continues once it has descriptors again.
#[tokio::test]
async fn a_listener_without_descriptors() {
    if std::env::var_os(LISTENS).is_none() {
        // Another test runs this one in a child process.
        return;
    }
    let Some(at) = device() else { return };
    let listener = listener(at, VerbsOptions::default()).await;
    eprintln!("at {}", listener.local_addr().expect("an address"));
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
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("another process");
    let mut said = BufReader::new(child.stderr.take().expect("what it says")).lines();
    let line = timeout(LIMIT, said.next_line()).await.expect("it listens").expect("text");
    let address = line.as_deref().and_then(|line| line.strip_prefix("at ")).expect("an address");
    let address = address.parse().expect("an address");
    // It has taken all descriptors before it looks for peers.
    let first = connect(address, b"", RECEIVE, &VerbsOptions::default()).await;
    assert!(matches!(first, Err(VerbsError::Refused { .. })), "{first:?}");
    // It looks every 20 ms whether it has refused one, and gives its descriptors back then.
    let again = async {
        loop {
            match connect(address, b"", RECEIVE, &VerbsOptions::default()).await {
                Err(VerbsError::Refused { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                made => break made,
            }
        }
    };
    let second = timeout(LIMIT, again).await.expect("refused for ever").expect("a connection");
    assert!(second.info().private_data.starts_with(b"yes"));
    assert!(timeout(LIMIT, child.wait()).await.expect("its end").expect("a status").success());
}

#[tokio::test]
async fn nobody_listens() {
    let Some(at) = device() else { return };
    let address = listener(at, VerbsOptions::default()).await.local_addr().expect("an address");
    let near = connect(address, b"", RECEIVE, &VerbsOptions::default()).await;
    assert!(near.is_err(), "{near:?}");
}

/// Where Linux has the range of ports that it chooses from.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The port range, which is restored at the end.
struct Usual(String);

impl Drop for Usual {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(RANGE, &self.0) {
            eprintln!("{RANGE} was {}: {error}", self.0);
        }
    }
}

/// The kernel chooses the ports of initiators and of listeners without a fixed port. Over iWARP that is
/// also a TCP port, which another program may occupy.
#[tokio::test]
async fn ports_that_tcp_has_are_no_hindrance() {
    let Some(at) = device() else { return };
    let Ok(usual) = std::fs::read_to_string(RANGE).map(Usual) else {
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
    drop((taken, ends, usual));
}

#[tokio::test]
async fn read_depths_are_the_minimum_of_both_peers() {
    let Some(at) = device() else { return };
    let depths = |ird, ord| VerbsOptions { ird, ord, ..VerbsOptions::default() };
    let (near, far) = pair(at, depths(3, 5)).await;
    assert_eq!((near.info().ord, near.info().ird), (3, 3));
    assert_eq!((far.info().ord, far.info().ird), (3, 3));
    // The ORD of one side is the IRD of the other, for each direction separately.
    let (near, far) = pair_for(at, RECEIVE, [depths(6, 5), depths(2, 4)]).await;
    // siw grants any requested depth, regardless of its settings, and does not report the depth reliably at
    // this side.
    let ord = if name(at).await.starts_with("siw") { 4 } else { 2 };
    assert_eq!(near.info().ord, ord);
    assert!(near.info().ird >= 4, "{:?}", near.info());
    assert_eq!((far.info().ord, far.info().ird), (4, 2));
}

/// Up to 8 KiB uses memory that stays registered and that the peer cannot access. Longer data uses separate
/// memory.
#[tokio::test]
async fn short_memory_is_read_and_written() {
    let Some(at) = device() else { return };
    let data: Bytes = (0..20_000u32).map(|index| (index ^ (index >> 7)).to_le_bytes()[0]).collect();
    let (mut near, mut far) = pair(at, VerbsOptions::default()).await;
    let source = register(&mut near, Memory::Source(data.clone())).await;
    let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(data.len()))).await;
    tell(&mut near, &mut far).await;
    let piece = |of: Segment, skip: usize, length: usize| Segment {
        handle: of.handle,
        length: u32::try_from(length).expect("short"),
        offset: of.offset + skip as u64,
    };
    // An empty read completes at once.
    let pieces = [(5, 0), (0, 1), (7, 4095), (3, 4096), (1001, 8192), (1002, 8193), (0, 20_000)];
    // All concurrently: each has separate memory.
    for (token, (skip, length)) in (10..).zip(pieces) {
        far.submit(Action::read(Token(token), piece(source, skip, length)));
    }
    let mut written = vec![0; data.len()];
    for (token, (skip, length)) in (10..).zip(pieces) {
        let read = drive(&mut far, &mut near, |heard| matches!(heard, Completion::ReadDone { .. })).await;
        let Completion::ReadDone { token: of, data: read } = read else { unreachable!() };
        assert!(of == Token(token) && read == data[skip..skip + length], "{length} octets from {skip} on");
        // The result is read into memory without that content.
        let to = data.len() - skip - length;
        far.submit(Action::Write { token: Token(0), sink: piece(sink, to, length), data: read });
        written[to..to + length].copy_from_slice(&data[skip..skip + length]);
    }
    far.submit(Action::Send { token: Token(1), message: vec![], invalidate: None });
    drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
    near.submit(Action::Invalidate { token: Token(2), handle: sink.handle });
    assert!(fenced(&mut near).await == written);
}

#[tokio::test]
async fn memory_is_read_and_written_within_its_bounds_only() {
    let Some(at) = device() else { return };
    for (options, long) in ways(at).await.into_iter().flat_map(|options| [(options, false), (options, true)])
    {
        let data: Bytes = (0..300_000u32).map(|index| (index ^ (index >> 8)).to_le_bytes()[0]).collect();
        let (mut near, mut far) = pair(at, options).await;
        let source = register(&mut near, Memory::Source(data.clone())).await;
        let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(data.len()))).await;
        tell(&mut near, &mut far).await;
        far.submit(Action::read(Token(2), source));
        let read = drive(&mut far, &mut near, |heard| matches!(heard, Completion::ReadDone { .. })).await;
        let Completion::ReadDone { data: read, .. } = read else { unreachable!() };
        assert!(read == data);
        far.submit(Action::Write { token: Token(3), sink, data: data.clone() });
        far.submit(Action::Send { token: Token(4), message: vec![], invalidate: None });
        let heard = drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
        assert!(matches!(&heard, Completion::Received { message, .. } if message.is_empty()), "{heard:?}");
        near.submit(Action::Invalidate { token: Token(5), handle: sink.handle });
        assert!(fenced(&mut near).await == data);
        if long {
            let beyond = Segment { length: source.length + 1, ..source };
            far.submit(Action::read(Token(6), beyond));
        } else {
            far.submit(Action::Write { token: Token(6), sink, data: data.slice(..10) });
        }
        // Either end may hear first that the device has ended it.
        let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
        assert!(matches!(&returned[..], [Memory::Source(back)] if *back == data), "{returned:?}");
    }
}

/// The kernel pins each page of it, which other threads wait for.
#[tokio::test]
async fn long_regions_transfer_like_short_ones() {
    let Some(at) = device() else { return };
    let data: Bytes =
        (0..1_500_000u32).flat_map(|index| index.wrapping_mul(77_777_777).to_be_bytes()).collect();
    for options in ways(at).await {
        long_memory(pair(at, options).await, &data).await;
    }
}

async fn long_memory((mut near, mut far): (VerbsConnection, VerbsConnection), data: &Bytes) {
    let source = register(&mut near, Memory::Source(data.clone())).await;
    let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(data.len()))).await;
    tell(&mut near, &mut far).await;
    far.submit(Action::read(Token(2), source));
    let read = drive(&mut far, &mut near, |heard| matches!(heard, Completion::ReadDone { .. })).await;
    assert!(matches!(read, Completion::ReadDone { data: read, .. } if read == *data));
    far.submit(Action::Write { token: Token(3), sink, data: data.clone() });
    far.submit(Action::Send { token: Token(4), message: vec![], invalidate: None });
    drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
    near.submit(Action::Invalidate { token: Token(5), handle: sink.handle });
    assert!(fenced(&mut near).await == *data);
    // A registration that completes during the close also returns.
    near.submit(Action::Register { token: Token(6), memory: Memory::Sink(BytesMut::zeroed(data.len())) });
    near.submit(Action::Close { reason: CloseReason::Local });
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    assert_eq!(returned.iter().map(Memory::len).collect::<Vec<_>>(), [data.len(); 2]);
}

/// A page of siw. siw copies the data of shorter work at once. It reads longer data from memory when TCP
/// sends it, so memory that is reused too early would be sent with its new contents.
#[tokio::test]
async fn data_is_captured_at_submission() {
    const EACH: usize = 800;
    let Some(at) = device() else { return };
    for size in [4095, 4096, 4097] {
        let (mut near, mut far) = pair(at, VerbsOptions::default()).await;
        for round in 0..4 {
            let fill = |index: usize| ((round * EACH + index) % 251).to_be_bytes()[7] ^ 0x5a;
            let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(EACH * size))).await;
            for index in 0..EACH {
                let skip = u32::try_from(index * size).expect("short");
                let length = u32::try_from(size).expect("short");
                let sink = Segment { offset: sink.offset + u64::from(skip), length, ..sink };
                let data = Bytes::from(vec![fill(index); size]);
                far.submit(Action::Write { token: Token(2), sink, data });
            }
            far.submit(Action::Send { token: Token(3), message: vec![], invalidate: None });
            drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
            near.submit(Action::PostReceives { count: 1 });
            near.submit(Action::Invalidate { token: Token(4), handle: sink.handle });
            let Completion::Invalidated { memory: Memory::Sink(memory), .. } = next(&mut near).await else {
                panic!("no memory")
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
    // The maximum inline length of a work request, none, and more than any device has.
    for inline in [VerbsOptions::default().inline, 0, 1 << 20] {
        let options = VerbsOptions { receives: 4, inline, ..VerbsOptions::default() };
        messages_arrive(pair_for(at, 262_144, [options; 2]).await, options.receives).await;
    }
}

async fn messages_arrive((mut near, mut far): (VerbsConnection, VerbsConnection), receives: u32) {
    // Only the posted Receives remain.
    far.submit(Action::PostReceives { count: receives });
    // Short and long pieces, more of them than a work request has room for, and none.
    for sizes in
        [&[][..], &[1], &[0, 5, 0], &[100, 4000], &[28, 100_000, 3], &[9000; 7], &[1; 300], &[262_144]]
    {
        let message: Vec<Bytes> =
            sizes.iter().zip((0..=255).cycle()).map(|(size, fill)| Bytes::from(vec![fill; *size])).collect();
        let whole = message.concat();
        near.submit(Action::Send { token: Token(1), message, invalidate: None });
        let heard = drive(&mut far, &mut near, |heard| matches!(heard, Completion::Received { .. })).await;
        let Completion::Received { message, invalidated } = heard else { panic!("{sizes:?}: {heard:?}") };
        assert!(message == whole && invalidated.is_none(), "{sizes:?}");
        far.submit(Action::PostReceives { count: 1 });
    }
}

#[tokio::test]
async fn short_messages_submitted_together_arrive_in_order() {
    let Some(at) = device() else { return };
    for inline in [VerbsOptions::default().inline, 0] {
        let options = VerbsOptions { receives: 90, inline, ..VerbsOptions::default() };
        let (mut near, mut far) = pair(at, options).await;
        let messages: Vec<Bytes> =
            (0..80).map(|number| Bytes::from(vec![number; 3 * usize::from(number)])).collect();
        for (token, message) in (1..).zip(&messages) {
            near.submit(Action::Send {
                token: Token(token),
                message: vec![message.clone()],
                invalidate: None,
            });
        }
        let sending = async {
            let mut sent = Vec::new();
            while sent.len() < messages.len() {
                if let Completion::Sent { token: Token(token) } = next(&mut near).await {
                    sent.push(token);
                }
            }
            sent
        };
        let hearing = async {
            for expected in &messages {
                match next(&mut far).await {
                    Completion::Received { message, .. } => assert!(message == expected),
                    other => panic!("{other:?}"),
                }
            }
        };
        let (sent, ()) = tokio::join!(sending, hearing);
        assert!(sent.into_iter().eq(1..=80), "each Send completes, and in order");
    }
}

/// Counts the wake-ups of a task.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A polling task wakes itself; a blocking task waits for the device.
#[tokio::test]
async fn a_connection_can_be_polled_without_a_wake_up() {
    let Some(at) = device() else { return };
    for spin in [Duration::ZERO, Duration::from_secs(3600)] {
        let options = VerbsOptions { spin, ..VerbsOptions::default() };
        let (mut near, mut far) = pair(at, options).await;
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        for _ in 0..20 {
            assert!(near.poll_completion(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), if spin.is_zero() { 0 } else { 20 });
        for number in 0..20 {
            let message = vec![Bytes::from(vec![number; 100])];
            far.submit(Action::Send { token: Token(1), message, invalidate: None });
            let is_it = |heard: &Completion| matches!(heard, Completion::Received { message, .. } if message[..] == [number; 100]);
            drive(&mut near, &mut far, is_it).await;
        }
    }
}

/// The system's name of the device.
async fn name(at: SocketAddr) -> String {
    let found = rpcrdma_verbs::device_for(SocketAddr::new(at.ip(), 1), LIMIT).await;
    found.expect("an answer").expect("a device")
}

/// The kernel does not register constants for windows as they are.
#[tokio::test]
async fn constants_are_advertised_too() {
    static DATA: [u8; 10_000] = [7; 10_000];
    let Some(at) = device() else { return };
    for options in ways(at).await {
        let (mut near, mut far) = pair(at, options).await;
        let source = register(&mut near, Memory::Source(Bytes::from_static(&DATA))).await;
        tell(&mut near, &mut far).await;
        far.submit(Action::read(Token(2), source));
        let read = drive(&mut far, &mut near, |heard| matches!(heard, Completion::ReadDone { .. })).await;
        assert!(matches!(read, Completion::ReadDone { data, .. } if data == DATA[..]));
        // And writes are not allowed.
        let data = Bytes::from_static(&[1; 10]);
        far.submit(Action::Write { token: Token(3), sink: Segment { length: 10, ..source }, data });
        let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
        assert!(matches!(&returned[..], [Memory::Source(back)] if *back == DATA[..]), "{returned:?}");
    }
}

#[tokio::test]
async fn devices_are_listed() {
    let Some(at) = device() else { return };
    let devices = rpcrdma_verbs::devices().expect("devices");
    let own = name(at).await;
    let device = devices.iter().find(|device| device.name == own).expect("it is listed");
    assert!(device.ports.iter().any(|port| port.active && port.message > 0), "{device:?}");
    assert!(device.ird > 0 && device.work > 0 && device.region > 1 << 20, "{device:?}");
    assert!(rpcrdma_verbs::serves(at));
    let documentation = "192.0.2.1:1".parse().expect("an address");
    assert!(!rpcrdma_verbs::serves(documentation));
}
