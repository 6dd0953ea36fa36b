//! The fuzz targets for RPCSEC_GSS, rpcbind, TCP streams to clients and servers, RDMA replies to clients, and
//! captures that `explain` reads. `tests/tests/fuzz_seeds.rs` also runs them.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rpcrdma_nfs3::{NfsFh3, Read3Args, nfs_v3};
use rpcrdma_rpcbind::RpcblistPtr;
use rpcrdma_runtime::Client;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::{CallContext, Procedure, Program, Reject, Service};
use rpcrdma_runtime::proto::rpc::gss::{
    GssCaller, GssMechanism, GssServer, GssServerOptions, GssService, GssSession, GssStep,
};
use rpcrdma_runtime::proto::work::{Action, CloseReason, Completion, Memory, Segment};
use rpcrdma_runtime::provider::{Connection, ConnectionInfo};
use rpcrdma_runtime::wire::rpc::Records;
use rpcrdma_runtime::xdr::{Message, Reader, Received, Reducer, from_bytes, to_bytes};
use rpcrdma_runtime::{CallError, ClientOptions, TcpClient, TcpClientOptions, TcpServer};
use rpcrdma_services::rpcbind::{Netid, Rpcbind, from_universal, to_universal};
use rpcrdma_tools::explain::{self, Selection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::gss::TestMechanism;

fn ready<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a call without a transport must not wait"),
    }
}

type Recorded = (Option<GssCaller>, Bytes);

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Recorded>>>);

impl Program for Recorder {
    const NUMBER: u32 = 0x2000_0f0f;
    const VERSION: u32 = 1;
    const NAME: &'static str = "RECORDER";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL"), (1, "RECORD")];
}

impl Service for Recorder {
    fn program(&self) -> u32 {
        <Recorder as Program>::NUMBER
    }

    fn version(&self) -> u32 {
        <Recorder as Program>::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        mut args: Reader<'a>,
        _: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        let rest = args.take(args.remaining()).map(Bytes::copy_from_slice).unwrap_or_default();
        let caller = context.extensions.get().cloned();
        self.0.lock().expect("no panic").push((caller, rest));
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Record;

impl Procedure for Record {
    type Program = Recorder;
    type Args = [u8; 8];
    type Res = ();
    const NUMBER: u32 = 1;
    const NAME: &'static str = "RECORD";
}

const ARGUMENTS: [u8; 8] = *b"argument";

/// Sends two kinds of messages to a server: RPCSEC_GSS calls with changed bytes, and arbitrary bytes.
///
/// A call must run at most once, and only for the context's caller. With integrity or privacy, a call must
/// run only with unchanged arguments. The client must not panic on an arbitrary reply.
pub(crate) fn gss(data: &[u8]) {
    let (Some(first), mut rest) = (data.first(), data.get(1..).unwrap_or_default()) else { return };
    let service = [GssService::None, GssService::Integrity, GssService::Privacy][usize::from(first % 3)];
    let options = GssServerOptions { max_contexts: 4, max_unfinished: 4, ..GssServerOptions::default() };
    let gss = Arc::new(GssServer::with(TestMechanism::new("server"), options));
    let (mut services, recorder) = (Services::new(), Recorder::default());
    services.add(recorder.clone());
    services.with_gss(gss.clone());
    let answer = |message: Bytes| ready(services.answer(&Received::unreduced(message), None));
    let session = establish(&answer, service);
    let mut sequence = 1;
    while let Some((what, after)) = rest.split_first() {
        let (taken, after) = after.split_at(usize::from(what >> 2).min(after.len()));
        rest = after;
        if what % 4 == 0 {
            let message = Bytes::copy_from_slice(taken);
            let received = Received::unreduced(message.clone());
            let _ = (session.result::<()>(1, sequence, &received), GssSession::init_answer(1, &received));
            let _ = answer(message);
            recorder.0.lock().expect("no panic").clear();
            continue;
        }
        sequence += 1;
        let call = session.call::<Record>(1, sequence, &ARGUMENTS, 1).expect("a call").flatten();
        let mut changed = call.to_vec();
        for pair in taken.chunks_exact(2) {
            let at = usize::from(pair[0]) % changed.len();
            changed[at] ^= pair[1];
        }
        let reply = answer(changed.clone().into());
        assert!(
            answer(changed.into()).is_none_or(|_| reply.is_some()),
            "the replay has a reply, but the first call has none"
        );
        let calls = std::mem::take(&mut *recorder.0.lock().expect("no panic"));
        // If the flavor was changed, the message is a call without RPCSEC_GSS and has no `GssCaller`.
        let mut calls = calls.into_iter().filter_map(|(caller, arguments)| Some((caller?, arguments)));
        let Some((caller, arguments)) = calls.next() else { continue };
        assert!(calls.next().is_none(), "a call runs twice");
        assert_eq!((&caller.name[..], caller.service), (&b"alice"[..], service));
        if arguments[..] == ARGUMENTS {
            let reply = Received::unreduced(reply.expect("a reply").flatten());
            session.result::<()>(1, sequence, &reply).expect("a result");
        } else {
            assert_eq!(service, GssService::None, "changed arguments: {arguments:?}");
        }
    }
    assert!(gss.contexts() <= 4 && gss.unfinished() <= 4);
}

/// Creates a context. The mechanism needs one token from each peer.
fn establish(answer: &impl Fn(Bytes) -> Option<Message>, service: GssService) -> GssSession {
    let mut exchange = TestMechanism::new("alice").begin().expect("an exchange");
    let Ok(GssStep::Continue(token)) = exchange.step(b"") else { panic!("no first token") };
    let call = GssSession::init_call::<Recorder>(1, &Bytes::new(), token.into()).expect("a call");
    let reply = answer(call.flatten()).expect("a reply").flatten();
    let last = GssSession::init_answer(1, &Received::unreduced(reply)).expect("a valid reply");
    let Ok(GssStep::Done(_, context)) = exchange.step(&last.token) else { panic!("no context") };
    GssSession::new(context, service, last).expect("a session")
}

/// Parses a universal address. A valid address must stay the same when formatted and parsed again. Also
/// decodes a list of registrations, which must encode to the same bytes.
pub(crate) fn rpcbind(data: &[u8]) {
    if let Some(address) = std::str::from_utf8(data).ok().and_then(from_universal) {
        assert_eq!(from_universal(&to_universal(&address)), Some(address));
    }
    let data = Bytes::copy_from_slice(data);
    if let Ok(list) = from_bytes::<RpcblistPtr>(&data) {
        assert_eq!(to_bytes(&list).expect("within its bounds"), data);
    }
}

/// Explains an arbitrary capture. Text output must contain no control characters except newlines, and HTML
/// pages must contain no scripts.
///
/// If the first byte is even, the rest is a capture file. If it is odd, TCP payloads follow. Two bytes
/// precede each payload: their highest bit is the direction, and their lower 12 bits are the length.
pub(crate) fn explain(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let file = if first & 1 == 0 { rest.to_vec() } else { capture_of(rest) };
    let Ok(trace) = explain::read(&file[..]) else { return };
    for brief in [true, false] {
        let selection = Selection { brief, ..Selection::default() };
        let mut text = Vec::new();
        explain::text(&trace, &selection, &mut text).expect("writing to memory");
        assert!(
            text.iter().all(|byte| *byte == b'\n' || !byte.is_ascii_control()),
            "{}",
            text.escape_ascii()
        );
        let _ = explain::svg(&trace, &selection);
        if let Ok(page) = explain::html(&trace, &selection) {
            assert!(!page.contains("<script") && page.ends_with("</html>"));
        }
    }
}

fn capture_of(mut payloads: &[u8]) -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let head = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, RAW_IP];
    let mut file: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut next = [1u32, 1];
    while let Some((length, rest)) = payloads.split_first_chunk() {
        let length = u16::from_be_bytes(*length);
        let (payload, rest) = rest.split_at(usize::from(length & 0x0fff).min(rest.len()));
        payloads = rest;
        let side = usize::from(length >> 15);
        let [from, to] = if side == 0 { [40_000u16, 20_049] } else { [20_049, 40_000] };
        let payload_len = u16::try_from(payload.len()).expect("at most 4,095 bytes");
        let len = 40 + payload_len;
        let mut packet = vec![0x45, 0];
        packet.extend(len.to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1]);
        packet.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        packet.extend([next[side].to_be_bytes(), next[1 - side].to_be_bytes()].concat());
        packet.extend([0x50, 16, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(payload);
        file.extend([0, 0, len.into(), len.into()].map(u32::to_le_bytes).concat());
        file.extend(packet);
        next[side] += u32::from(payload_len);
    }
    file
}

/// The state that all inputs share. A new listener for each input would use up all ports: a closed connection
/// occupies its port for a minute (TIME_WAIT).
struct Shared {
    runtime: Mutex<Runtime>,
    /// The address of a TCP server for [`Recorder`].
    server: SocketAddr,
    listener: TcpListener,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (server, listener) = runtime.block_on(async {
        let server = TcpServer::bind("127.0.0.1:0").await.expect("a port").service(Recorder::default());
        let address = server.local_addr().expect("a local address");
        tokio::spawn(server.run(std::future::pending()));
        (address, TcpListener::bind("127.0.0.1:0").await.expect("a port"))
    });
    Shared { runtime: Mutex::new(runtime), server, listener }
});

/// The time after which a call or a connection counts as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends an arbitrary stream to a server over TCP, or to an NFS or rpcbind client as the replies to its
/// calls. The connection and every call must end, and the server's replies must be valid records.
pub(crate) fn tcp(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let Shared { runtime, server, listener } = &*SHARED;
    let runtime = runtime.lock().expect("no panic");
    runtime.block_on(async {
        let tested = async {
            match first % 3 {
                0 => server_over_tcp(*server, stream).await,
                1 => {
                    client_over_tcp(listener, stream, |client| async move {
                        let nfs = nfs_v3::Client(client);
                        let _ =
                            nfs.read(&Read3Args { file: NfsFh3::default(), offset: 0, count: 4096 }).await;
                    })
                    .await
                }
                _ => {
                    client_over_tcp(listener, stream, |client| async move {
                        let found = Rpcbind::over(client).lookup(100_003, 3, Netid::Rdma).await;
                        assert!(!matches!(found, Ok(Some(address)) if address.port() == 0));
                    })
                    .await
                }
            }
        };
        timeout(PATIENCE, tested).await.expect("the connection must end in time");
    });
}

async fn server_over_tcp(address: SocketAddr, stream: &[u8]) {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let (mut reader, mut writer) = socket.split();
    let mut replies = BytesMut::new();
    // The server may close the connection at any time.
    let sending = async {
        let _ = writer.write_all(stream).await;
        let _ = writer.shutdown().await;
    };
    let receiving = async { while reader.read_buf(&mut replies).await.is_ok_and(|count| count > 0) {} };
    tokio::join!(sending, receiving);
    let mut records = Records::new(1 << 20);
    while records.next(&mut replies).expect("a valid record").is_some() {}
}

/// Makes calls to a server that replies to the first call with `stream` and then closes the connection. In
/// the first reply, the call's XID replaces an XID of zero.
async fn client_over_tcp<Calling: Future<Output = ()>>(
    listener: &TcpListener,
    stream: &[u8],
    call: impl FnOnce(TcpClient) -> Calling,
) {
    let address = listener.local_addr().expect("a local address");
    let options = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let (client, accepted) = tokio::join!(TcpClient::connect_with(address, options), listener.accept());
    let (client, (mut socket, _)) = (client.expect("a client"), accepted.expect("a connection"));
    let answering = async {
        let mut call = BytesMut::new();
        if socket.read_buf(&mut call).await.is_ok() {
            let mut stream = stream.to_vec();
            if let (Some(xid), Some(place)) = (call.get(4..8), stream.get_mut(4..8))
                && place == [0; 4]
            {
                place.copy_from_slice(xid);
            }
            let _ = socket.write_all(&stream).await;
        }
        let _ = socket.shutdown().await;
        // Waits until the client also closes the connection.
        while socket.read_buf(&mut call).await.is_ok_and(|count| count > 0) {}
    };
    let calling = async {
        call(client).await;
    };
    tokio::join!(answering, calling);
}

/// Makes NFS calls over RDMA to a server that sends arbitrary messages. Every call must end before its
/// timeout.
pub(crate) fn client(data: &[u8]) {
    let runtime = SHARED.runtime.lock().expect("no panic");
    let hostile = Hostile::new(data);
    runtime.block_on(async {
        let options = ClientOptions { reconnect: None, ..ClientOptions::of::<nfs_v3::NfsV3>() };
        let client = Client::over(hostile, options);
        let nfs = nfs_v3::Client(client);
        let calls = [64, 4096, 100_000].map(|count| {
            let nfs = nfs.clone();
            async move {
                let read = nfs.read(&Read3Args { file: NfsFh3::default(), offset: 0, count }).await;
                assert!(!matches!(read, Err(CallError::Timeout { .. })), "{read:?}");
            }
        });
        let [first, second, third] = calls;
        let all = async { tokio::join!(first, second, third) };
        timeout(PATIENCE, all).await.expect("every call ends");
    });
}

/// A connection to a server that follows a script. Once a call has been sent and the script has ended, the
/// connection completes the remaining actions and closes.
struct Hostile {
    script: VecDeque<u8>,
    xids: VecDeque<[u8; 4]>,
    actions: VecDeque<Action>,
    exposed: BTreeMap<u32, Memory>,
    closing: Option<CloseReason>,
    is_closed: bool,
    waker: Option<Waker>,
    info: ConnectionInfo,
}

impl Hostile {
    fn new(script: &[u8]) -> Self {
        let info = ConnectionInfo {
            local: None,
            peer: None,
            private_data: Bytes::new(),
            ord: 16,
            ird: 16,
            max_region: 1 << 20,
            receives: u32::MAX,
            remote_invalidation: true,
            local_fence: script.len().is_multiple_of(2),
        };
        let (xids, actions, exposed) = (VecDeque::new(), VecDeque::new(), BTreeMap::new());
        let script = script.iter().copied().collect();
        Hostile { script, xids, actions, exposed, closing: None, is_closed: false, waker: None, info }
    }

    fn byte(&mut self) -> u8 {
        self.script.pop_front().unwrap_or(0)
    }

    fn complete(&mut self, fails: bool) -> Option<Completion> {
        Some(match self.actions.pop_front()? {
            Action::Register { token, memory } if fails => Completion::RegisterFailed { token, memory },
            Action::Register { token, mut memory } => {
                memory.initialize();
                let handle = self.exposed.last_key_value().map_or(1, |(last, _)| last + 1);
                let length = u32::try_from(memory.len()).expect("a region of less than 4 GiB");
                self.exposed.insert(handle, memory);
                Completion::Registered { token, segment: Segment { handle, length, offset: 0 } }
            }
            Action::Invalidate { token, handle } => {
                let memory = self.exposed.remove(&handle).expect("a handle is invalidated once");
                Completion::Invalidated { token, handle, memory }
            }
            Action::Send { token, message, .. } => {
                let message = message.concat();
                self.xids.extend(message.first_chunk());
                Completion::Sent { token }
            }
            Action::Close { reason } => {
                self.closing = Some(reason);
                return None;
            }
            Action::PostReceives { .. } | Action::Abandon { .. } => return None,
            action @ (Action::Read { .. } | Action::Write { .. }) => {
                panic!("unexpected action of a client: {action:?}")
            }
        })
    }

    /// Returns the completion of a Receive. The message consists of fuzzer input, with the XID of an earlier
    /// call at octets 0 and 28. Octet 0 starts the transport header. Without chunks, octet 28 starts the RPC
    /// reply.
    fn received(&mut self) -> Completion {
        let len = usize::from(self.byte()) | usize::from(self.byte() & 3) << 8;
        let invalidated = (self.byte() & 1 == 1).then(|| self.exposed.keys().next().copied()).flatten();
        let mut message: Vec<u8> = (0..len.min(self.script.len())).map(|_| self.byte()).collect();
        if let Some(xid) = self.xids.front() {
            for at in [0, 28] {
                if let Some(place) = message.get_mut(at..at + 4) {
                    place.copy_from_slice(xid);
                }
            }
        }
        self.xids.rotate_left(1.min(self.xids.len()));
        Completion::Received { message: message.into(), invalidated }
    }
}

impl Connection for Hostile {
    fn submit(&mut self, action: Action) {
        self.actions.push_back(action);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        loop {
            if self.is_closed || self.closing.is_none() && self.xids.is_empty() && self.actions.is_empty() {
                self.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if let Some(reason) = self.closing.take() {
                self.is_closed = true;
                let kept = std::mem::take(&mut self.exposed).into_values();
                let unregistered = self.actions.drain(..).filter_map(|action| match action {
                    Action::Register { memory, .. } => Some(memory),
                    _ => None,
                });
                return Poll::Ready(Completion::Closed {
                    reason,
                    returned: kept.chain(unregistered).collect(),
                });
            }
            if self.script.is_empty() && self.actions.is_empty() {
                self.closing = Some(CloseReason::Peer);
                continue;
            }
            // No message arrives before a call is sent.
            let completion = match self.script.pop_front().unwrap_or(2) % 4 {
                0 if !self.xids.is_empty() => Some(self.received()),
                1 => self.complete(self.script.len().is_multiple_of(7)),
                _ => self.complete(false),
            };
            if let Some(completion) = completion {
                return Poll::Ready(completion);
            }
        }
    }

    fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}
