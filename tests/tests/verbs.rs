//! Connections over an RDMA device, at the border between engine and provider. They run where `RPCRDMA_VERBS`
//! has the address of a device: in the lab's guest, for `tests/interop/verbs.rs`.
#![cfg(feature = "verbs")]

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

/// Both ends of a connection: who connects, and who accepts.
async fn pair(at: SocketAddr, options: VerbsOptions) -> (VerbsConnection, VerbsConnection) {
    pair_for(at, RECEIVE, [options; 2]).await
}

/// The same for messages of another length, and with options for each end.
async fn pair_for(
    at: SocketAddr,
    receive: u32,
    [near, far]: [VerbsOptions; 2],
) -> (VerbsConnection, VerbsConnection) {
    let listener = VerbsListener::bind(at, far).await.expect("a device");
    let address = listener.local_addr().expect("an address");
    // Whatever fails is told at once, and not waited for at the other end.
    let near = async { connect(address, b"please", receive, &near).await.expect("a connection") };
    let far = async {
        listener.accept().await.expect("a request").accept(b"yes", receive).await.expect("accepted")
    };
    timeout(LIMIT, async { tokio::join!(near, far) }).await.expect("two ends")
}

async fn next(end: &mut VerbsConnection) -> Completion {
    timeout(LIMIT, poll_fn(|cx| end.poll_completion(cx))).await.expect("a completion")
}

/// What both ends hear until one of them has heard what is waited for.
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

/// Sends a message, as the one that names what is advertised: from then on the peer reaches it.
async fn tell(near: &mut VerbsConnection, far: &mut VerbsConnection) {
    far.submit(Action::PostReceives { count: 1 });
    near.submit(Action::Send {
        token: Token(0),
        message: vec![Bytes::from_static(b"take")],
        invalidate: None,
    });
    drive(far, near, |heard| matches!(heard, Completion::Received { .. })).await;
}

/// What is in a sink that this end has asked to be fenced, once it is.
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
async fn private_data_goes_both_ways_and_may_have_zeros_behind_it() {
    let Some(at) = device() else { return };
    let (near, far) = pair(at, VerbsOptions::default()).await;
    assert!(far.info().private_data.starts_with(b"please"), "{:?}", far.info());
    assert!(far.info().private_data[6..].iter().all(|octet| *octet == 0));
    assert!(near.info().private_data.starts_with(b"yes"), "{:?}", near.info());
    assert_eq!(near.info().peer.map(|peer| peer.ip()), Some(at.ip()));
}

/// How memory can be advertised: through regions, and through windows if the device has them.
async fn ways(at: SocketAddr) -> Vec<VerbsOptions> {
    let name = name(at).await;
    let devices = rpcrdma_verbs::devices().expect("devices");
    let windows = devices.iter().any(|device| device.name == name && device.windows);
    assert!(windows || !name.starts_with("rxe"), "rxe has windows");
    let ways =
        if windows { &[MemoryWindows::Never, MemoryWindows::Always][..] } else { &[MemoryWindows::Always] };
    ways.iter().map(|windows| VerbsOptions { windows: *windows, ..VerbsOptions::default() }).collect()
}

/// Both ends, if the device has windows, and one of them advertises memory through such.
async fn windowed(at: SocketAddr) -> Option<(VerbsConnection, VerbsConnection)> {
    let Some(options) = ways(at).await.get(1).copied() else {
        not_run::not_run("the device has no memory windows of type 2");
        return None;
    };
    let (near, far) = pair(at, options).await;
    assert!(near.info().remote_invalidation && !far.info().remote_invalidation);
    Some((near, far))
}

/// Requirement: R295
#[tokio::test]
async fn who_connects_lets_the_peer_invalidate_only_where_there_are_windows() {
    let Some(at) = device() else { return };
    for (options, windows) in ways(at).await.into_iter().zip([false, true]) {
        the_peer_is_told(at, options, windows).await;
    }
}

async fn the_peer_is_told(at: SocketAddr, options: VerbsOptions, windows: bool) {
    let listener = listener(at, options).await;
    let address = listener.local_addr().expect("an address");
    let said = PrivateData::new(true, 4096, 4096);
    let octets = said.encode();
    let connecting = connect(address, &octets, RECEIVE, &options);
    let accepting = async {
        let request = listener.accept().await.expect("a request");
        let heard = PrivateData::find(request.private_data());
        (request.accept(&octets, RECEIVE).await.expect("accepted"), heard)
    };
    let (near, (_far, heard)) = tokio::join!(connecting, accepting);
    assert_eq!(heard, Some(PrivateData { remote_invalidation: windows, ..said }));
    assert_eq!(near.expect("a connection").info().remote_invalidation, windows);
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

/// Who runs [`a_listener_without_descriptors`] in a process of its own says so by this.
const LISTENS: &str = "RPCRDMA_VERBS_LISTENS";

/// A process with no descriptor left: it can give a peer no channel, so it refuses it. It goes on once it has
/// descriptors again.
#[tokio::test]
async fn a_listener_without_descriptors() {
    if std::env::var_os(LISTENS).is_none() {
        // Another test runs this one in a process of its own.
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
async fn a_peer_that_cannot_be_taken_over_is_refused_and_the_next_is_not() {
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

/// What the range was, which it is again in the end.
struct Usual(String);

impl Drop for Usual {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(RANGE, &self.0) {
            eprintln!("{RANGE} was {}: {error}", self.0);
        }
    }
}

/// The kernel chooses the port of who connects, and of who listens anywhere; over iWARP that is a port of
/// TCP, too, and another program may have it.
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
async fn depths_of_reads_are_what_both_ends_have() {
    let Some(at) = device() else { return };
    let depths = |ird, ord| VerbsOptions { ird, ord, ..VerbsOptions::default() };
    let (near, far) = pair(at, depths(3, 5)).await;
    assert_eq!((near.info().ord, near.info().ird), (3, 3));
    assert_eq!((far.info().ord, far.info().ird), (3, 3));
    // What one asks for is what the other serves, each way for itself.
    let (near, far) = pair_for(at, RECEIVE, [depths(6, 5), depths(2, 4)]).await;
    // Siw serves as many as it is asked for, whatever it was told, and what it says of that at this end is
    // not clear.
    let ord = if name(at).await.starts_with("siw") { 4 } else { 2 };
    assert_eq!(near.info().ord, ord);
    assert!(near.info().ird >= 4, "{:?}", near.info());
    assert_eq!((far.info().ord, far.info().ird), (4, 2));
}

/// Up to 8 KiB goes through memory that stays registered, where the peer cannot reach that, and more through
/// memory of its own.
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
    // What reads nothing is done at once.
    let pieces = [(5, 0), (0, 1), (7, 4095), (3, 4096), (1001, 8192), (1002, 8193), (0, 20_000)];
    // All at once: each has memory of its own.
    for (token, (skip, length)) in (10..).zip(pieces) {
        far.submit(Action::read(Token(token), piece(source, skip, length)));
    }
    let mut written = vec![0; data.len()];
    for (token, (skip, length)) in (10..).zip(pieces) {
        let read = drive(&mut far, &mut near, |heard| matches!(heard, Completion::ReadDone { .. })).await;
        let Completion::ReadDone { token: of, data: read } = read else { unreachable!() };
        assert!(of == Token(token) && read == data[skip..skip + length], "{length} octets from {skip} on");
        // What was read goes where nothing of it stands.
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
async fn long_memory_comes_and_goes_as_short_memory_does() {
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
    // What is registered while the connection ends comes back too.
    near.submit(Action::Register { token: Token(6), memory: Memory::Sink(BytesMut::zeroed(data.len())) });
    near.submit(Action::Close { reason: CloseReason::Local });
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    assert_eq!(returned.iter().map(Memory::len).collect::<Vec<_>>(), [data.len(); 2]);
}

/// What a page is to siw, which takes the data of shorter work at once, and that of other work out of the
/// memory when TCP sends it: memory that is used again too early would be sent with what it has then.
#[tokio::test]
async fn what_is_sent_is_what_was_there_when_it_was_asked_for() {
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
async fn messages_of_any_form_arrive_whole() {
    let Some(at) = device() else { return };
    // As long as a device hands over with its work request, none at all, and more than any device does.
    for inline in [VerbsOptions::default().inline, 0, 1 << 20] {
        let options = VerbsOptions { receives: 4, inline, ..VerbsOptions::default() };
        messages_arrive(pair_for(at, 262_144, [options; 2]).await, options.receives).await;
    }
}

async fn messages_arrive((mut near, mut far): (VerbsConnection, VerbsConnection), receives: u32) {
    // Those that are posted already are these.
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
async fn short_messages_that_are_asked_for_at_once_arrive_in_their_order() {
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

/// Counts how often a task is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One that looks again and again has itself woken; one that does not waits for the device.
#[tokio::test]
async fn a_connection_can_look_for_work_without_being_woken() {
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

/// What the system calls the device.
async fn name(at: SocketAddr) -> String {
    let found = rpcrdma_verbs::device_for(SocketAddr::new(at.ip(), 1), LIMIT).await;
    found.expect("an answer").expect("a device")
}

/// Requirement: R200, R286
#[tokio::test]
async fn a_window_that_has_ended_is_closed_to_the_peer() {
    let Some(at) = device() else { return };
    // The last is ended by this end, and by the peer.
    for last in [297, 299] {
        let Some((near, far)) = windowed(at).await else { return };
        windows_end(near, far, last).await;
    }
}

async fn windows_end(mut near: VerbsConnection, mut far: VerbsConnection, last: u16) {
    // Those that are posted already are these.
    for end in [&mut near, &mut far] {
        end.submit(Action::PostReceives { count: VerbsOptions::default().receives });
    }
    let mut sink = register(&mut near, Memory::Sink(BytesMut::zeroed(5000))).await;
    // More often than a window has names.
    for round in 0..=last {
        tell(&mut near, &mut far).await;
        let data = Bytes::from(vec![round.to_be_bytes()[1]; 5000]);
        far.submit(Action::Write { token: Token(1), sink, data: data.clone() });
        // The peer invalidates most handles, and this end the others.
        let invalidate = (round % 3 != 0).then_some(sink.handle);
        far.submit(Action::Send { token: Token(2), message: vec![Bytes::from_static(b"x")], invalidate });
        near.submit(Action::PostReceives { count: 1 });
        let heard = drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
        let Completion::Received { invalidated, .. } = heard else { unreachable!() };
        assert_eq!(invalidated, invalidate);
        near.submit(Action::Invalidate { token: Token(3), handle: sink.handle });
        assert!(fenced(&mut near).await == data, "round {round}");
        let old = sink;
        sink = register(&mut near, Memory::Sink(BytesMut::zeroed(5000))).await;
        assert_ne!(sink.handle, old.handle);
        if round == last {
            tell(&mut near, &mut far).await;
            far.submit(Action::Write { token: Token(4), sink: old, data });
        }
    }
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    assert!(matches!(&returned[..], [Memory::Sink(back)] if *back == vec![0; 5000]), "{returned:?}");
}

/// Requirement: H46
#[tokio::test]
async fn a_peer_that_invalidates_what_is_not_advertised_loses_the_connection() {
    let Some(at) = device() else { return };
    let Some((mut near, mut far)) = windowed(at).await else { return };
    let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(100))).await;
    tell(&mut near, &mut far).await;
    // The same window under another name.
    let invalidate = Some(sink.handle ^ 0x55);
    far.submit(Action::Send { token: Token(1), message: vec![Bytes::from_static(b"x")], invalidate });
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    assert!(matches!(&returned[..], [Memory::Sink(back)] if back.len() == 100), "{returned:?}");
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
        // And nobody may write there.
        let data = Bytes::from_static(&[1; 10]);
        far.submit(Action::Write { token: Token(3), sink: Segment { length: 10, ..source }, data });
        let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
        assert!(matches!(&returned[..], [Memory::Source(back)] if *back == DATA[..]), "{returned:?}");
    }
}

/// The library of siw does not tell that the peer has invalidated a handle; but then no peer can use it any
/// more.
#[tokio::test]
async fn an_invalidation_that_was_not_allowed_ends_the_connection_or_at_least_the_handle() {
    let Some(at) = device() else { return };
    let (mut near, mut far) = pair(at, VerbsOptions::default()).await;
    let sink = register(&mut near, Memory::Sink(BytesMut::zeroed(100))).await;
    far.submit(Action::Send {
        token: Token(1),
        message: vec![Bytes::from_static(b"x")],
        invalidate: Some(sink.handle),
    });
    if name(at).await.starts_with("siw") {
        drive(&mut near, &mut far, |heard| matches!(heard, Completion::Received { .. })).await;
        far.submit(Action::Write { token: Token(2), sink, data: Bytes::from_static(&[1; 100]) });
    }
    let ((_, returned), _) = tokio::join!(closed(&mut near), closed(&mut far));
    match &returned[..] {
        [Memory::Sink(back)] => assert!(back.iter().all(|octet| *octet == 0), "it was written"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_sent_before_the_end_arrives() {
    let Some(at) = device() else { return };
    for _ in 0..10 {
        let (mut near, mut far) = pair(at, VerbsOptions::default()).await;
        for _ in 0..20 {
            let message = vec![Bytes::from(vec![7; 4000])];
            near.submit(Action::Send { token: Token(1), message, invalidate: None });
        }
        near.submit(Action::Close { reason: CloseReason::Local });
        let hearing = async {
            let mut arrived = 0;
            loop {
                match next(&mut far).await {
                    Completion::Received { .. } => arrived += 1,
                    Completion::Closed { reason, .. } => return (arrived, reason),
                    _ => {}
                }
            }
        };
        let ((own, _), (arrived, reason)) = tokio::join!(closed(&mut near), hearing);
        assert_eq!((own, arrived, reason), (CloseReason::Local, 20, CloseReason::Peer));
    }
}

/// Polls a future so many times, and drops it where it stands then.
async fn cut_after<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Tells the peer of memory that is advertised, in a message: whether it is a sink, and where it is.
fn told(sink: bool, segment: Segment) -> Vec<Bytes> {
    let place = [segment.handle.to_be_bytes(), segment.length.to_be_bytes()].concat();
    vec![Bytes::from([&[u8::from(sink)], &place[..], &segment.offset.to_be_bytes()].concat())]
}

/// What such a message asks its reader to do.
fn asked(message: &[u8]) -> Option<Action> {
    let (&[sink, h0, h1, h2, h3, l0, l1, l2, l3], offset) = message.split_first_chunk()?;
    let offset = u64::from_be_bytes(offset.try_into().ok()?);
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let place = Segment { handle: u32::from_be_bytes([h0, h1, h2, h3]), length, offset };
    let data = BytesMut::zeroed(usize::try_from(length).ok()?).freeze();
    Some(match sink {
        0 => Action::read(Token(5), place),
        _ => Action::Write { token: Token(6), sink: place, data },
    })
}

/// Works on a connection for some completions, in one of many ways: registers memory, tells the peer of it,
/// reads and writes what the peer tells of, and leaves all of that. Some of it is as long as what other
/// threads register.
async fn work_on(mut end: VerbsConnection, way: usize) {
    for (token, len) in [(10, 8000), (11, 70_000), (20, 70_000), (21, 5 << 20)] {
        let zeros = BytesMut::zeroed(len);
        let memory = if token < 20 { Memory::Source(zeros.freeze()) } else { Memory::Sink(zeros) };
        end.submit(Action::Register { token: Token(token), memory });
    }
    for size in [10, 3000] {
        let message = vec![Bytes::from(vec![1; size])];
        end.submit(Action::Send { token: Token(2), message, invalidate: None });
    }
    for _ in 0..way * 3 {
        // There may be nothing to hear any more.
        let heard = timeout(Duration::from_millis(300), poll_fn(|cx| end.poll_completion(cx))).await;
        match heard {
            Ok(Completion::Registered { token, segment }) => {
                let message = told(token >= Token(20), segment);
                end.submit(Action::Send { token: Token(7), message, invalidate: None });
                // A handle of this end means nothing at the other: the device there ends the connection.
                if way % 7 == 6 {
                    end.submit(Action::read(Token(3), segment));
                } else if way % 5 == 2 {
                    end.submit(Action::Invalidate { token: Token(4), handle: segment.handle });
                }
            }
            Ok(Completion::Received { message, .. }) => {
                if let Some(action) = asked(&message) {
                    end.submit(action);
                }
            }
            Ok(Completion::ReadDone { .. }) => {
                READS.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Completion::Closed { .. }) | Err(_) => return,
            Ok(_) => {}
        }
    }
    if way.is_multiple_of(3) {
        end.submit(Action::Close { reason: CloseReason::Local });
        let _ = cut_after(way, closed(&mut end)).await;
    }
}

/// RDMA Reads of the work above that came to their end.
static READS: AtomicUsize = AtomicUsize::new(0);

/// What the kernel counts of all devices: protection domains, queues, pairs, ids, contexts, regions.
async fn resources() -> String {
    let mut rdma = tokio::process::Command::new("rdma");
    let output = rdma.args(["resource", "show"]).output().await.expect("the program rdma, of iproute2");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Of 200 connections nothing is left in the kernel, while this process goes on.
#[tokio::test]
async fn connections_are_cut_in_every_state() {
    let Some(at) = device() else { return };
    // All Receives are there from the beginning: iWARP does not wait for them.
    let options =
        VerbsOptions { connect_timeout: Duration::from_secs(5), receives: 16, ..VerbsOptions::default() };
    let listener = listener(at, options).await;
    let address = listener.local_addr().expect("an address");
    // What the first one has the libraries open stays open; the rest of it goes.
    drop(pair(at, options).await);
    let mut before = String::new();
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let last = std::mem::replace(&mut before, resources().await);
        if last == before {
            break;
        }
    }
    assert!(before.contains("cm_id"), "{before}");
    let mut made = (0, 0);
    for round in 0..200 {
        let windows = if round / 2 % 2 == 0 { MemoryWindows::Always } else { MemoryWindows::Never };
        let options = VerbsOptions { windows, ..options };
        let (near_polls, far_polls) = (round / 4 % 8, round / 8 % 6);
        let near = async {
            // Some are cut at a poll while they are made, most afterwards.
            let polls = if round % 4 == 0 { near_polls } else { usize::MAX };
            let near = cut_after(polls, connect(address, b"", RECEIVE, &options)).await;
            if let Some(Ok(near)) = near {
                made.0 += 1;
                work_on(near, round % 23).await;
            }
        };
        let far = async {
            let Ok(request) = timeout(Duration::from_millis(300), listener.accept()).await else { return };
            let request: VerbsRequest = request.expect("a request");
            match round % 5 {
                0 => drop(request),
                1 => request.reject(b"no").await.unwrap_or_default(),
                _ => {
                    let polls = if round % 5 == 2 { far_polls } else { usize::MAX };
                    if let Some(Ok(far)) = cut_after(polls, request.accept(b"", RECEIVE)).await {
                        made.1 += 1;
                        work_on(far, round % 19).await;
                    }
                }
            }
        };
        timeout(LIMIT, async { tokio::join!(near, far) }).await.expect("an end of it");
    }
    let reads = READS.load(Ordering::Relaxed);
    eprintln!("{} connections were made at one end, {} at the other, with {reads} Reads", made.0, made.1);
    assert!(made.0 > 50 && made.1 > 50 && reads > 20, "{made:?}, {reads}");
    // Threads may still be letting go of long memory, and the kernel of connections.
    let mut after = resources().await;
    for _ in 0..100 {
        if after == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        after = resources().await;
    }
    assert_eq!(after, before);
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

/// Runs one of iproute2's commands, for at most so long.
async fn rdma_link(arguments: &[&str], limit: Duration) -> bool {
    let mut command = tokio::process::Command::new("rdma");
    let run = command.arg("link").args(arguments).kill_on_drop(true).status();
    matches!(timeout(limit, run).await, Ok(Ok(status)) if status.success())
}

/// `RPCRDMA_VERBS_LINK` has the device's name, its kind and its network device: `rxe0 rxe eth0`. It is
/// deleted while calls are made, and added again: calls fail or wait meanwhile, and then go on in the same
/// client and the same server.
#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_once_the_device_is_back() {
    let Ok(link) = std::env::var("RPCRDMA_VERBS_LINK") else {
        return not_run::not_run("RPCRDMA_VERBS_LINK is not set: no device to delete and add again");
    };
    let Some(at) = device() else { return };
    for verbs in ways(at).await {
        let options = ClientOptions { timeout: Duration::from_secs(2), ..ClientOptions::default() };
        calls_go_on(at, verbs, options, &link).await;
    }
}

async fn calls_go_on(at: SocketAddr, verbs: VerbsOptions, options: ClientOptions, link: &str) {
    let [name, kind, network] = link.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{link}") };
    let server = Server::with_acceptor(listener(at, VerbsOptions::default()).await, ServerOptions::default());
    let server = server.expect("a server").service(Echo);
    let address = server.local_addr().expect("an address");
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopping.await) }));
    let connector = VerbsConnector::new(address.to_string(), verbs);
    let client = Client::connect_via(connector, options).await.expect("a connection");
    let caller = client.clone();
    let call = move |number| {
        let client = caller.clone();
        let args = Args::new(number, [5000, 10, 0], Want { note: 10, item: 5000, other: 0 });
        async move { client.call::<Echo>(&args).await.map(|result| assert_eq!(result, args.result())) }
    };
    call(1).await.expect("a result");
    let gone = Arc::new(AtomicBool::new(false));
    // One call after the other, until the device is gone: how many failed.
    let load = |number: u32| {
        let (call, gone) = (call.clone(), gone.clone());
        tokio::spawn(async move {
            let mut failed = 0;
            while !gone.load(Ordering::Relaxed) {
                failed += u32::from(call(number).await.is_err());
            }
            failed
        })
    };
    let under_way: Vec<_> = (2..40).map(load).collect();
    assert!(rdma_link(&["delete", name], Duration::from_secs(30)).await, "the device does not go away");
    gone.store(true, Ordering::Relaxed);
    let mut failed = 0;
    for calls in under_way {
        failed += calls.await.expect("no panic");
    }
    assert!(failed > 0, "no call was under way");
    assert!(call(40).await.is_err(), "there is no device");
    assert!(rdma_link(&["add", name, "type", kind, "netdev", network], Duration::from_secs(30)).await);
    let mut back = false;
    for number in 41..71 {
        back = call(number).await.is_ok();
        if back {
            break;
        }
    }
    assert!(back, "nothing is answered over the device that is back");
    client.close();
    drop(stop);
    serving.await.expect("no panic").expect("the server ends as it should");
}

fn windows() -> VerbsOptions {
    VerbsOptions { windows: MemoryWindows::Always, ..VerbsOptions::default() }
}

/// Each call has one chunk, whose handle the server invalidates: both ends count that.
/// Requirement: R286
#[tokio::test(flavor = "multi_thread")]
async fn a_server_invalidates_the_windows_of_calls() {
    let Some(at) = device() else { return };
    if ways(at).await.len() < 2 {
        return not_run::not_run("the device has no memory windows of type 2");
    }
    let server = Server::with_acceptor(listener(at, VerbsOptions::default()).await, ServerOptions::default());
    let server = server.expect("a server").service(Echo);
    let (address, counted) = (server.local_addr().expect("an address"), server.stats());
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopping.await) }));
    let connector = VerbsConnector::new(address.to_string(), windows());
    let client = Client::connect_via(connector, ClientOptions::default()).await.expect("a connection");
    let calls = (1..=50).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let args = Args::new(number, [0, 70_000, 0], Want { note: 10, item: 0, other: 0 });
            assert_eq!(client.call::<Echo>(&args).await.expect("a result"), args.result());
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("a result");
    }
    assert!(client.negotiated().remote_invalidation);
    let invalidated = client.stats().traffic.remote_invalidations;
    assert_eq!(invalidated, 50);
    assert_eq!(counted.snapshot().traffic.remote_invalidations, invalidated);
    client.close();
    drop(stop);
    serving.await.expect("no panic").expect("the server ends as it should");
}

/// A file of an NFSv3 server, by verbs.
async fn file_at(
    server: (&str, u16, u16),
    path: [&str; 2],
    verbs: VerbsOptions,
    credential: Credential,
) -> (Client, nfs_v3::Client<Client>, NfsFh3) {
    let ((host, port, mount_port), [export, name]) = (server, path);
    let mount = TcpClientOptions { credential: credential.clone(), ..TcpClientOptions::default() };
    let mount = TcpClient::connect_with(format!("{host}:{mount_port}"), mount).await.expect("mountd");
    let found = mount_v3::Client(mount).mnt(&Dirpath::from(export.to_owned())).await.expect("an answer");
    let Mountres3::Mnt3Ok(found) = found else { panic!("{found:?}") };
    let connector = VerbsConnector::new(format!("{host}:{port}"), verbs);
    let options = ClientOptions { credential, ..ClientOptions::default() };
    let client = Client::connect_via(connector, options).await.expect("a connection");
    let nfs = nfs_v3::Client(client.clone());
    let what = Diropargs3 { dir: NfsFh3 { data: found.fhandle }, name: name.to_owned().into() };
    let looked = nfs.lookup(&Lookup3Args { what }).await.expect("an answer");
    let Lookup3Res::Nfs3Ok(Lookup3Resok { object: file, .. }) = looked else { panic!("{looked:?}") };
    (client, nfs, file)
}

fn user(uid: u32) -> Credential {
    Credential::Sys(AuthSys { machine_name: "here".into(), uid, gid: uid, ..AuthSys::default() })
}

/// `RPCRDMA_VERBS_NFS3D` has the address of a `nfs3d` of root's with its ports 20050 and 20051, which serves
/// a file `long` that everybody may write to. For each call a thread of that server's has another user's
/// rights. The kernel takes requests for a device from no thread that ever had, and memory as long as this is
/// registered while such threads come and go.
#[tokio::test(flavor = "multi_thread")]
async fn long_calls_of_another_user() {
    let Ok(server) = std::env::var("RPCRDMA_VERBS_NFS3D") else {
        return not_run::not_run("RPCRDMA_VERBS_NFS3D is not set: no server to write to");
    };
    const LONG: u32 = 4 << 20;
    let (client, nfs, file) =
        file_at((&server, 20050, 20051), ["/", "long"], VerbsOptions::default(), user(1234)).await;
    let callers = (0..4u8).map(|caller| {
        let nfs = nfs.clone();
        tokio::spawn(async move {
            let offset = u64::from(caller) * u64::from(LONG);
            for round in 0..4 {
                let data = Bytes::from(vec![caller + 4 * round; LONG as usize]);
                let stable = StableHow::Unstable;
                let args = Write3Args { file, offset, count: LONG, stable, data: data.clone().into() };
                let written = nfs.write(&args).await.expect("an answer");
                assert!(matches!(&written, Write3Res::Nfs3Ok(done) if done.count == LONG), "{written:?}");
                let read = nfs.read(&Read3Args { file, offset, count: LONG }).await.expect("an answer");
                assert!(matches!(&read, Read3Res::Nfs3Ok(read) if read.data[..] == data), "round {round}");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no panic");
    }
    assert_eq!(client.stats().reconnects(), 0);
}

/// `RPCRDMA_VERBS_KNFSD` has the address of the kernel's NFS server, which serves a file `/export/windowed`
/// of a MiB.
#[tokio::test]
async fn the_kernels_server_invalidates_windows() {
    let Ok(server) = std::env::var("RPCRDMA_VERBS_KNFSD") else {
        return not_run::not_run("RPCRDMA_VERBS_KNFSD is not set: no kernel server to write to");
    };
    let (client, nfs, file) =
        file_at((&server, 20049, 20048), ["/export", "windowed"], windows(), user(0)).await;
    let count = 1 << 16;
    for round in 0..32u8 {
        let offset = u64::from(round) % 16 * u64::from(count);
        let data = Bytes::from(vec![round; 1 << 16]);
        let args = Write3Args { file, offset, count, stable: StableHow::Unstable, data: data.clone().into() };
        let written = nfs.write(&args).await.expect("an answer");
        assert!(matches!(&written, Write3Res::Nfs3Ok(done) if done.count == count), "{written:?}");
        let read = nfs.read(&Read3Args { file, offset, count }).await.expect("an answer");
        assert!(matches!(&read, Read3Res::Nfs3Ok(read) if read.data[..] == data), "round {round}");
    }
    let traffic = client.stats().traffic;
    eprintln!("{traffic:?}");
    assert_eq!(traffic.remote_invalidations, 64);
}
