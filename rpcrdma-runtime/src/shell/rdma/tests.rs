use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::MemoryBudget;
use super::super::inbound::serve;
use super::super::options::MAX_BACKWARD_CALLS;
use super::super::slots::{Slot, Slots};
use super::*;
use crate::proto::program::{CallContext, Reject, Service};
use crate::proto::work::{Action, Segment};
use crate::wire::rdma::{Body, ChunkLists, ErrorBody, Header, ReadSegment, WriteChunk};
use crate::wire::rpc::CallHeader;
use crate::xdr::{Reader, Reducer, Sink, Writer};

const LONG: u32 = 4 << 20;
/// The size of the item in a small reply, and of the chunk for this item, in bytes.
const CHUNK: u32 = 16 << 10;

/// Procedure 1 returns a long item, procedure 3 a small item, and procedure 0 no data. Procedures 2, 4 and 5
/// never reply. Procedures 1, 4 and 5 reserve memory for a long reply. The memory of procedures 2 and 5
/// outlives their handlers.
#[derive(Default)]
struct Files {
    outliving: Mutex<Vec<CallMemory>>,
}

impl Service for &'static Files {
    fn program(&self) -> u32 {
        1
    }

    fn version(&self) -> u32 {
        1
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        _: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            match context.procedure {
                1 => {
                    let _memory = context.reserve(LONG.into()).await;
                    put_item(reply, LONG)
                }
                procedure @ (2 | 5) => {
                    let memory = context.reserve(if procedure == 2 { 0 } else { LONG.into() }).await;
                    self.outliving.lock().unwrap().extend(memory);
                    std::future::pending().await
                }
                3 => put_item(reply, CHUNK),
                4 => {
                    let _memory = context.reserve(LONG.into()).await;
                    std::future::pending().await
                }
                _ => Ok(()),
            }
        })
    }
}

fn put_item(reply: &mut Reducer, len: u32) -> Result<(), Reject> {
    let item = vec![0; len as usize].into();
    reply.put_u32(len).and_then(|()| reply.put_item(&item)).map_err(|_| Reject::SystemError)
}

/// A connection whose peer accepts no output and does not respond to RDMA Reads.
#[derive(Clone)]
struct UnreadConnection(Arc<Mutex<State>>, Arc<ConnectionInfo>);

#[derive(Default)]
struct State {
    arrived: VecDeque<Completion>,
    actions: Vec<Action>,
    /// The number of Sends before each flush, without repetitions.
    flushed: Vec<usize>,
    task: Option<Waker>,
}

impl Connection for UnreadConnection {
    fn submit(&mut self, action: Action) {
        self.0.lock().unwrap().actions.push(action);
    }

    fn poll_completion(&mut self, cx: &mut Context<'_>) -> Poll<Completion> {
        let mut state = self.0.lock().unwrap();
        state.task = Some(cx.waker().clone());
        state.arrived.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn try_completion(&mut self) -> Option<Completion> {
        self.0.lock().unwrap().arrived.pop_front()
    }

    fn try_flush(&mut self) -> bool {
        let (_, sends) = self.output();
        let flushed = &mut self.0.lock().unwrap().flushed;
        if flushed.last() != Some(&sends) {
            flushed.push(sends);
        }
        false
    }

    fn info(&self) -> &ConnectionInfo {
        &self.1
    }
}

impl UnreadConnection {
    fn from(last: u8) -> Self {
        UnreadConnection::at([192, 0, 2, last].into())
    }

    fn at(address: IpAddr) -> Self {
        let info = ConnectionInfo {
            local: None,
            peer: Some(SocketAddr::new(address, 700)),
            private_data: Bytes::new(),
            ord: 16,
            ird: 16,
            max_region: u32::MAX,
            receives: 66,
            remote_invalidation: false,
            local_fence: true,
        };
        UnreadConnection(Arc::default(), Arc::new(info))
    }

    fn serve(&self, serving: &Serving, slot: Option<Arc<Slot>>) -> JoinHandle<()> {
        let (serving, connection) = (serving.clone(), self.clone());
        tokio::spawn(async move {
            let (_stop, stopping) = watch::channel(false);
            let (mut inbound, executor) = RdmaInbound::new(connection, &serving, Config::default());
            serve(&mut inbound, executor, stopping, slot.as_deref()).await;
        })
    }

    /// Delivers a call with a Read chunk of `read` bytes and a Write chunk of `write` bytes. A size of 0
    /// omits the chunk.
    fn call(&self, xid: u32, procedure: u32, read: u32, write: u32) {
        let segment = |length| Segment { handle: 7, length, offset: 0 };
        let mut lists = ChunkLists::default();
        let header = CallHeader { xid, program: 1, version: 1, procedure, credential: Default::default() };
        let mut call = Writer::new();
        header.encode(&mut call).unwrap();
        if read > 0 {
            call.put_u32(read).unwrap();
            let position = u32::try_from(call.position()).unwrap();
            lists.reads.push(ReadSegment { position, segment: segment(read) });
        }
        if write > 0 {
            lists.writes.push(WriteChunk(vec![segment(write)]));
        }
        let header = Header { xid, credits: 64, body: Body::Msg(lists) };
        let message = header.with_payload(Some(call.into_bytes())).concat().into();
        self.complete(Completion::Received { message, invalidated: None });
    }

    fn close(&self, reason: CloseReason) {
        self.complete(Completion::Closed { reason, returned: Vec::new() });
    }

    fn complete(&self, completion: Completion) {
        let mut state = self.0.lock().unwrap();
        state.arrived.push_back(completion);
        state.task.take().into_iter().for_each(Waker::wake);
    }

    /// Returns the total length of RDMA Writes and Sends in bytes, and the number of Sends.
    fn output(&self) -> (u64, usize) {
        let mut sends = 0;
        let bytes = self.0.lock().unwrap().actions.iter().fold(0, |bytes, action| match action {
            Action::Write { data, .. } => bytes + data.len() as u64,
            Action::Send { message, .. } => {
                sends += 1;
                message.iter().fold(bytes, |bytes, piece| bytes + piece.len() as u64)
            }
            _ => bytes,
        });
        (bytes, sends)
    }

    fn has_err_chunk(&self) -> bool {
        let error = Header { xid: 0, credits: 0, body: Body::Error(ErrorBody::Chunk) }.encode();
        match self.0.lock().unwrap().actions.last() {
            // Skips the XID, the version and the credits.
            Some(Action::Send { message, .. }) => message.concat()[12..] == error[12..],
            _ => false,
        }
    }

    fn complete_sends(&self) -> usize {
        let actions = std::mem::take(&mut self.0.lock().unwrap().actions);
        let sent = actions.iter().filter_map(|action| match action {
            Action::Send { token, .. } => Some(*token),
            _ => None,
        });
        sent.map(|token| self.complete(Completion::Sent { token })).count()
    }

    fn reads(&self) -> usize {
        let is_read = |action: &&Action| matches!(action, Action::Read { .. });
        self.0.lock().unwrap().actions.iter().filter(is_read).count()
    }

    fn forget_output(&self) {
        self.0.lock().unwrap().actions.clear();
    }
}

/// Serves a connection from each of these addresses. On each connection, makes `calls` calls with the given
/// arguments of [`UnreadConnection::call`].
fn make_calls(
    serving: &Serving,
    addresses: impl IntoIterator<Item = u8>,
    calls: u32,
    (procedure, read, write): (u32, u32, u32),
) -> Vec<UnreadConnection> {
    let connections: Vec<_> = addresses.into_iter().map(UnreadConnection::from).collect();
    for connection in &connections {
        connection.serve(serving, None);
        (0..calls).for_each(|xid| connection.call(xid, procedure, read, write));
    }
    connections
}

fn output_bytes(connections: &[UnreadConnection]) -> u64 {
    connections.iter().map(|connection| connection.output().0).sum()
}

fn serving(memory: &MemoryBudget, files: &'static Files) -> Serving {
    let mut services = Services::new();
    services.add(files);
    Serving::new(services, None, memory.clone(), MAX_BACKWARD_CALLS, ServerStats::default())
}

fn files() -> &'static Files {
    Box::leak(Box::default())
}

/// Waits until all other tasks are idle: the paused clock advances only then.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn unread_replies_of_one_owner_leave_memory_for_others() {
    let memory = MemoryBudget::new(192 << 20);
    let serving = serving(&memory, files());
    let unread = make_calls(&serving, [1; 10], 64, (1, 0, LONG));
    settle().await;
    let held = output_bytes(&unread);
    assert!((64 << 20..=97 << 20).contains(&held), "{held} bytes of replies");
    assert!((held..=104 << 20).contains(&memory.used()), "{held} bytes, and {memory:?}");
    // Neither small nor long calls of other owners wait.
    let other = UnreadConnection::from(2);
    other.serve(&serving, None);
    (0..8).for_each(|xid| other.call(xid, if xid == 0 { 1 } else { 0 }, 0, if xid == 0 { LONG } else { 0 }));
    settle().await;
    assert_eq!(other.output().1, 8);
    // Once the first replies are dropped, their memory is used for the next replies.
    unread.iter().for_each(UnreadConnection::forget_output);
    settle().await;
    let next = output_bytes(&unread);
    assert!(next >= 64 << 20, "{next} bytes of replies");
    let all = || unread.iter().chain([&other]);
    all().for_each(|connection| connection.close(CloseReason::Peer));
    settle().await;
    all().for_each(UnreadConnection::forget_output);
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn unread_replies_of_many_owners_leave_memory_for_another() {
    let memory = MemoryBudget::default();
    let serving = serving(&memory, files());
    let unread = make_calls(&serving, 1..=10, 64, (1, 0, LONG));
    settle().await;
    let held = output_bytes(&unread);
    assert!((40 << 20..=46 << 20).contains(&held), "{held} bytes of replies");
    let other = make_calls(&serving, [11], 1, (1, 0, 3 << 20));
    settle().await;
    assert_eq!(other[0].output().1, 1, "{memory:?}");
}

#[tokio::test(start_paused = true)]
async fn unread_small_replies_of_one_owner_leave_memory_for_others() {
    const CALLS: u32 = 130;
    let memory = MemoryBudget::default();
    let serving = serving(&memory, files());
    let unread = make_calls(&serving, [1; 60], CALLS, (3, 0, CHUNK));
    settle().await;
    let held = output_bytes(&unread);
    let half = memory.max() / 2;
    assert!((half / 3..=half).contains(&held), "{held} bytes of replies");
    // Each connection may exceed the owner's share by one call.
    assert!((half - (1 << 20)..=half + (1 << 20)).contains(&memory.used()), "{held} bytes, and {memory:?}");
    let other = UnreadConnection::from(2);
    other.serve(&serving, None);
    for (procedure, write) in [(1, LONG), (3, CHUNK), (0, 0)] {
        other.call(procedure, procedure, 0, write);
    }
    settle().await;
    assert_eq!(other.output().1, 3, "{memory:?}");
    // The remaining calls of the first owner get their replies once the first replies are sent.
    let mut sent = 0;
    loop {
        let more: usize = unread.iter().map(UnreadConnection::complete_sends).sum();
        if more == 0 {
            break;
        }
        sent += more;
        settle().await;
    }
    assert_eq!(sent, unread.len() * CALLS as usize);
    assert_eq!(other.complete_sends(), 3);
    settle().await;
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn replies_to_calls_that_arrive_together_are_sent_together() {
    let serving = serving(&MemoryBudget::default(), files());
    let connection = UnreadConnection::from(1);
    (0..3).for_each(|xid| connection.call(xid, 0, 0, 0));
    connection.serve(&serving, None);
    settle().await;
    connection.call(3, 0, 0, 0);
    settle().await;
    assert_eq!(connection.0.lock().unwrap().flushed, [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn small_calls_do_not_wait_for_large_calls_of_their_owner() {
    // 40 owners use the entire budget before another owner makes calls.
    let memory = MemoryBudget::new(16 << 20);
    let serving = serving(&memory, files());
    make_calls(&serving, 1..=8, 64, (1, 0, LONG));
    make_calls(&serving, 9..=40, 4, (2, 0, 64 << 10));
    settle().await;
    assert!(memory.used() > (16 << 20) - (64 << 10), "{memory:?}");
    let other = UnreadConnection::from(51);
    other.serve(&serving, None);
    other.call(0, 1, 0, LONG);
    (1..=40).for_each(|xid| other.call(xid, 3, 0, CHUNK));
    settle().await;
    // The owner uses its guaranteed 256 KiB, so further small calls wait.
    let mut sent = other.complete_sends();
    assert!((10..=16).contains(&sent), "{sent} replies");
    for _ in 0..5 {
        settle().await;
        sent += other.complete_sends();
    }
    assert_eq!(sent, 40, "all small calls have replies, but the large call does not");
}

/// Waiting calls use memory, although no memory is reserved for them.
#[tokio::test(start_paused = true)]
async fn an_owner_of_too_many_waiting_calls_loses_connections() {
    let memory = MemoryBudget::new(16 << 20);
    let serving = serving(&memory, files());
    let heavy = make_calls(&serving, [1; 200], 64, (1, 0, LONG));
    let light = make_calls(&serving, [2], 64, (1, 0, LONG));
    settle().await;
    let is_closed = |connection: &&UnreadConnection| {
        connection.0.lock().unwrap().actions.iter().any(|action| matches!(action, Action::Close { .. }))
    };
    let open = heavy.iter().filter(|connection| !is_closed(connection)).count();
    // An eighth of the budget suffices for the waiting calls of about 50 connections.
    assert!((40..60).contains(&open), "{open} connections are open");
    assert!(!is_closed(&&light[0]), "64 short calls may wait");
}

#[tokio::test(start_paused = true)]
async fn a_small_call_waits_for_memory_that_its_handler_reserves() {
    let memory = MemoryBudget::new(64 << 20);
    let serving = serving(&memory, files());
    make_calls(&serving, [1; 4], 64, (4, 0, 0));
    settle().await;
    // With the last call that fits, memory use may exceed half of the budget by half of the call's size.
    assert!((24 << 20..=34 << 20).contains(&memory.used()), "{memory:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_are_fetched_when_there_is_memory() {
    let memory = MemoryBudget::new(64 << 20);
    let serving = serving(&memory, files());
    let connections = make_calls(&serving, [1; 8], 16, (0, LONG, 0));
    settle().await;
    let reads: usize = connections.iter().map(UnreadConnection::reads).sum();
    assert!((7..=8).contains(&reads), "{reads} RDMA Reads; half of the budget allows 7 or 8");
}

#[tokio::test(start_paused = true)]
async fn memory_of_closed_connections_counts_until_it_is_released() {
    let (memory, files) = (MemoryBudget::new(64 << 20), files());
    let serving = serving(&memory, files);
    // Procedure 5 reserves a lot of memory, although its call offers no chunks.
    for (procedure, offered) in [(2, LONG), (5, 0)] {
        let connection = UnreadConnection::from(1);
        let served = connection.serve(&serving, None);
        connection.call(1, procedure, 0, offered);
        settle().await;
        connection.close(CloseReason::Peer);
        served.await.unwrap();
        assert_eq!(memory.used(), u64::from(LONG), "procedure {procedure}");
        files.outliving.lock().unwrap().clear();
        assert_eq!(memory.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ended_a_connection_is_refused_for_all_addresses_of_its_ipv6_prefix() {
    let serving = serving(&MemoryBudget::default(), files());
    let call = async |address: &str| {
        let connection = UnreadConnection::at(address.parse().unwrap());
        let served = connection.serve(&serving, None);
        connection.call(7, 3, 0, CHUNK);
        settle().await;
        assert_eq!(connection.output().1, 1);
        (connection, served)
    };
    let (blamed, served) = call("2001:db8::1").await;
    assert!(!blamed.has_err_chunk());
    blamed.close(CloseReason::Terminated { layer: 0, etype: 0, code: 0 });
    served.await.unwrap();
    assert!(!call("2001:db8:0:1::1").await.0.has_err_chunk(), "another prefix");
    assert!(call("2001:db8::2").await.0.has_err_chunk());
}

#[tokio::test(start_paused = true)]
async fn an_open_connection_refuses_a_call_only_while_the_call_is_suspected() {
    let serving = serving(&MemoryBudget::default(), files());
    let blamed = UnreadConnection::from(1);
    let served = blamed.serve(&serving, None);
    blamed.call(7, 3, 0, CHUNK);
    settle().await;
    blamed.close(CloseReason::Terminated { layer: 0, etype: 0, code: 0 });
    served.await.unwrap();
    let next = UnreadConnection::from(1);
    next.serve(&serving, None);
    sleep(Duration::from_secs(120)).await;
    next.call(7, 3, 0, CHUNK);
    settle().await;
    assert_eq!((next.output().1, next.has_err_chunk()), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_fetches_a_call_is_active() {
    let slots = Slots::new(1, 1, true);
    let slot = Arc::new(slots.take([192, 0, 2, 1].into()).await.unwrap());
    let serving = serving(&MemoryBudget::default(), files());
    let connection = UnreadConnection::from(1);
    connection.serve(&serving, Some(slot.clone()));
    connection.call(1, 0, LONG, 0);
    settle().await;
    assert_eq!(connection.reads(), 1);
    slots.close_idle(Duration::ZERO);
    assert!(tokio::time::timeout(Duration::from_secs(1), slot.closed()).await.is_err());
    // Once the call is complete and its reply is sent, the connection is idle.
    let token = connection.0.lock().unwrap().actions.iter().find_map(|action| match action {
        Action::Read { token, .. } => Some(*token),
        _ => None,
    });
    let data = vec![0; LONG as usize].into();
    connection.complete(Completion::ReadDone { token: token.unwrap(), data });
    settle().await;
    assert_eq!(connection.complete_sends(), 1);
    settle().await;
    slots.close_idle(Duration::ZERO);
    tokio::time::timeout(Duration::from_secs(1), slot.closed()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_an_unsent_reply_is_active() {
    let slots = Slots::new(1, 1, true);
    let slot = Arc::new(slots.take([192, 0, 2, 1].into()).await.unwrap());
    let serving = serving(&MemoryBudget::default(), files());
    let connection = UnreadConnection::from(1);
    connection.serve(&serving, Some(slot.clone()));
    // The RDMA Writes of a long reply count toward the `CallMemory` of its call, not toward
    // `Responder::unsent_bytes`.
    for (xid, procedure, write) in [(1, 0, 0), (2, 1, LONG)] {
        connection.call(xid, procedure, 0, write);
        settle().await;
        slots.close_idle(Duration::ZERO);
        assert!(tokio::time::timeout(Duration::from_secs(1), slot.closed()).await.is_err(), "{procedure}");
        assert_eq!(connection.complete_sends(), 1);
        settle().await;
    }
    slots.close_idle(Duration::ZERO);
    tokio::time::timeout(Duration::from_secs(1), slot.closed()).await.unwrap();
}
