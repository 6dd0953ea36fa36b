//! The memory budget of servers over TCP, and over both transports at once.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/gate.rs"]
mod gate;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use rpcrdma_runtime::program::{CallContext, Caller, Program, Reject, Service};
use rpcrdma_runtime::wire::rpc::CallHeader;
use rpcrdma_runtime::xdr::{Reader, Reducer, Sink, Writer};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{MemoryBudget, ServerOptions, TcpOptions, TcpServer, TcpServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use gate::{Gate, GateServer, Pass};

const WAIT: Duration = Duration::from_secs(30);
/// The length in bytes of a long call, and of the data in a long reply.
const LONG: u32 = 4 << 20;

/// The number of the program of [`Asking`], whose handler makes a backward call.
const ASKING: u32 = 2;

struct Files;

impl Service for Files {
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
            context.reserve(LONG.into()).await;
            reply.put_u32(LONG).map_err(|_| Reject::SystemError)?;
            let item = vec![0; LONG as usize].into();
            reply.put_item(&item).map_err(|_| Reject::SystemError)
        })
    }
}

/// Replies once the client has replied to a backward call.
struct Asking;

impl Service for Asking {
    fn program(&self) -> u32 {
        ASKING
    }

    fn version(&self) -> u32 {
        1
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        _: Reader<'a>,
        _: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            let client = context.backward().ok_or(Reject::SystemError)?;
            client.ready();
            let client = client.bidirectional();
            client.call::<Pass>(&()).await.map(drop).map_err(|_| Reject::SystemError)
        })
    }
}

async fn serve(memory: &MemoryBudget) -> (SocketAddr, SocketAddr) {
    let gate = GateServer::new(true);
    let options = TcpServerOptions { memory: memory.clone(), ..TcpServerOptions::default() };
    let tcp = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap();
    let tcp_address = tcp.local_addr().unwrap();
    tokio::spawn(tcp.service(Files).service(Asking).service(gate.clone()).run(std::future::pending()));
    let options = ServerOptions { memory: memory.clone(), ..ServerOptions::default() };
    let rdma = Server::bind_with("127.0.0.1:0", options).await.unwrap();
    let address = rdma.local_addr().unwrap();
    tokio::spawn(rdma.service(gate).run(std::future::pending()));
    (tcp_address, address)
}

/// Connects from the loopback address 127.0.0.`last`.
async fn connect(to: SocketAddr, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

fn call(xid: u32, program: u32, procedure: u32) -> Vec<u8> {
    let mut call = Writer::new();
    let header = CallHeader { xid, program, version: 1, procedure, credential: Default::default() };
    header.encode(&mut call).unwrap();
    let mark = u32::try_from(call.position()).unwrap() | 1 << 31;
    [&mark.to_be_bytes()[..], call.as_slice()].concat()
}

/// Returns a call of [`Asking`] with arguments of about 4 MiB, in several fragments.
fn long_call(xid: u32) -> Vec<u8> {
    let mut call = call(xid, ASKING, 1).split_off(4);
    call.resize(LONG as usize, 0);
    let fragment = |data: &[u8]| [&u32::try_from(data.len()).unwrap().to_be_bytes()[..], data].concat();
    let last = (1_u32 << 31).to_be_bytes();
    call.chunks(1 << 20).flat_map(fragment).chain(last).collect()
}

/// Returns a successful reply to a backward call, with the result 0.
fn reply_to(call: &[u8]) -> Vec<u8> {
    let words = [1_u32, 0, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    [&(28_u32 | 1 << 31).to_be_bytes()[..], &call[..4], &words].concat()
}

/// Reads a reply and a backward call, which may arrive in either order. Returns the reply's XID and the call.
async fn reply_and_backward_call(socket: &mut TcpStream) -> (u32, Vec<u8>) {
    let (first, second) = (read_record(socket).await, read_record(socket).await);
    let (reply, call) = if first[4..8] == [0; 4] { (second, first) } else { (first, second) };
    assert_eq!((&reply[4..8], &call[4..8]), (&[0, 0, 0, 1][..], &[0; 4][..]), "the message types");
    (u32::from_be_bytes(*reply.first_chunk().unwrap()), call)
}

async fn read_record(socket: &mut TcpStream) -> Vec<u8> {
    let mark = timeout(WAIT, socket.read_u32()).await.unwrap().unwrap();
    let mut record = vec![0; (mark & 0x7fff_ffff) as usize];
    timeout(WAIT, socket.read_exact(&mut record)).await.unwrap().unwrap();
    record
}

async fn wait_until_stable(memory: &MemoryBudget) -> u64 {
    let mut before = u64::MAX;
    while before != memory.used() {
        before = memory.used();
        sleep(Duration::from_millis(100)).await;
    }
    before
}

async fn wait_until_free(memory: &MemoryBudget) {
    let freed = async {
        while memory.used() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT, freed).await.unwrap_or_else(|_| panic!("{memory:?}"));
}

#[tokio::test]
async fn unread_replies_over_tcp_leave_memory_for_others() {
    let memory = MemoryBudget::new(64 << 20);
    let (tcp, rdma) = serve(&memory).await;
    let mut unread = Vec::new();
    for _ in 0..10 {
        let mut socket = connect(tcp, 2).await;
        for xid in 0..32 {
            socket.write_all(&call(xid, 1, 1)).await.unwrap();
        }
        unread.push(socket);
    }
    let used = wait_until_stable(&memory).await;
    // About half of the budget is used, for replies and waiting calls.
    assert!((24 << 20..=36 << 20).contains(&used), "{memory:?}");
    // Another owner calls over RDMA.
    let client = Client::connect(rdma).await.unwrap();
    timeout(WAIT, client.call::<Pass>(&())).await.unwrap().unwrap();
    // A third owner receives a short and a long reply over TCP.
    let mut other = connect(tcp, 3).await;
    for (xid, program, len) in [(7, Gate::NUMBER, 28), (8, 1, 28 + LONG as usize)] {
        other.write_all(&call(xid, program, 1)).await.unwrap();
        let mut reply = vec![0; 4 + len];
        timeout(WAIT, other.read_exact(&mut reply)).await.unwrap().unwrap();
        assert_eq!(reply[4..8], xid.to_be_bytes());
    }
    drop((unread, other, client));
    wait_until_free(&memory).await;
}

#[tokio::test]
async fn the_transports_of_a_server_share_its_budget() {
    let memory = MemoryBudget::new(64 << 20);
    let options = ServerOptions { memory: memory.clone(), ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(Files);
    let server = server.also_tcp("127.0.0.1:0", TcpOptions::default()).await.unwrap();
    let tcp = server.local_addrs().unwrap()[1];
    tokio::spawn(server.run(std::future::pending()));
    let mut unread = connect(tcp, 2).await;
    for xid in 0..6 {
        unread.write_all(&call(xid, 1, 1)).await.unwrap();
    }
    let counted = async {
        while memory.used() < LONG.into() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT, counted).await.unwrap_or_else(|_| panic!("{memory:?}"));
    drop(unread);
    wait_until_free(&memory).await;
}

#[tokio::test]
async fn unread_replies_of_many_owners_do_not_delay_small_calls() {
    let memory = MemoryBudget::default();
    let (tcp, _) = serve(&memory).await;
    let mut unread = Vec::new();
    for owner in 2..22 {
        let mut socket = connect(tcp, owner).await;
        for xid in 0..64 {
            socket.write_all(&call(xid, 1, 1)).await.unwrap();
        }
        unread.push(socket);
    }
    let used = wait_until_stable(&memory).await;
    assert!(used > memory.max(), "{memory:?}");
    let mut other = connect(tcp, 100).await;
    for xid in 7..27_u32 {
        other.write_all(&call(xid, Gate::NUMBER, 1)).await.unwrap();
        let mut reply = [0; 32];
        // This timeout is shorter than the stall timeout of 30 s, which would close the other connections and
        // free their memory.
        timeout(WAIT / 3, other.read_exact(&mut reply)).await.unwrap().unwrap();
        assert_eq!(reply[4..8], xid.to_be_bytes());
    }
}

/// The length in bytes of each call that [`announce_calls`] announces.
const ANNOUNCED: u32 = 8 << 20;

/// On each of 16 connections of one owner, sends the record mark of a call but not the call itself.
async fn announce_calls(to: SocketAddr, owner: u8) -> Vec<TcpStream> {
    let mut started = Vec::new();
    for _ in 0..16 {
        let mut socket = connect(to, owner).await;
        socket.write_all(&(ANNOUNCED | 1 << 31).to_be_bytes()).await.unwrap();
        started.push(socket);
    }
    started
}

#[tokio::test]
async fn a_long_call_over_tcp_waits_for_memory() {
    let memory = MemoryBudget::new(64 << 20);
    let (tcp, _) = serve(&memory).await;
    let started = announce_calls(tcp, 2).await;
    let used = wait_until_stable(&memory).await;
    assert_eq!(used, u64::from(4 * ANNOUNCED), "{memory:?}");
    let mut other = connect(tcp, 3).await;
    other.write_all(&call(7, Gate::NUMBER, 1)).await.unwrap();
    timeout(WAIT, other.read_exact(&mut [0; 32])).await.unwrap().unwrap();
    drop((started, other));
    wait_until_free(&memory).await;
}

/// The owner of the calls has used up its share of the memory.
#[tokio::test]
async fn long_calls_before_backward_replies_count_and_are_limited() {
    let memory = MemoryBudget::new(64 << 20);
    let (tcp, _) = serve(&memory).await;
    let mut socket = connect(tcp, 2).await;
    socket.write_all(&call(1, ASKING, 1)).await.unwrap();
    let first = read_record(&mut socket).await;
    let started = announce_calls(tcp, 2).await;
    let before = wait_until_stable(&memory).await;
    socket.write_all(&[long_call(2), reply_to(&first)].concat()).await.unwrap();
    let (xid, second) = reply_and_backward_call(&mut socket).await;
    assert_eq!(xid, 1, "a long call must not block the reply to an outstanding call");
    let used = wait_until_stable(&memory).await;
    assert_eq!(used, before + u64::from(LONG), "the long call counts toward the budget");
    // Until the last fragment of a long call has arrived, the call counts as `max_record` bytes, so it waits.
    let (mut reader, mut writer) = socket.into_split();
    let sending = tokio::spawn(async move {
        writer.write_all(&[long_call(3), reply_to(&second)].concat()).await.unwrap();
        writer
    });
    assert!(timeout(Duration::from_millis(300), reader.peek(&mut [0])).await.is_err(), "{memory:?}");
    assert!(memory.used() <= used, "{memory:?}");
    drop(started);
    let mut socket = reader.reunite(sending.await.unwrap()).unwrap();
    assert_eq!(reply_and_backward_call(&mut socket).await.0, 2);
    drop(socket);
    wait_until_free(&memory).await;
}
