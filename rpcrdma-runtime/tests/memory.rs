//! The memory budget of servers over TCP, and over both transports at once.
#![allow(clippy::unwrap_used)] // tests fail by panicking

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
/// The size of a reply in bytes.
const LONG: u32 = 4 << 20;

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

async fn serve(memory: &MemoryBudget) -> (SocketAddr, SocketAddr) {
    let gate = GateServer::new(true);
    let options = TcpServerOptions { memory: memory.clone(), ..TcpServerOptions::default() };
    let tcp = TcpServer::bind_with("127.0.0.1:0", options).await.unwrap();
    let tcp_address = tcp.local_addr().unwrap();
    tokio::spawn(tcp.service(Files).service(gate.clone()).run(std::future::pending()));
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
        // The server closes the other connections only after 30 s.
        timeout(WAIT / 3, other.read_exact(&mut reply)).await.unwrap().unwrap();
        assert_eq!(reply[4..8], xid.to_be_bytes());
    }
}

#[tokio::test]
async fn a_long_call_over_tcp_waits_for_memory() {
    const CALL: u32 = 8 << 20;
    let memory = MemoryBudget::new(64 << 20);
    let (tcp, _) = serve(&memory).await;
    // Each connection announces a call without sending it.
    let mut started = Vec::new();
    for _ in 0..16 {
        let mut socket = connect(tcp, 2).await;
        socket.write_all(&(CALL | 1 << 31).to_be_bytes()).await.unwrap();
        started.push(socket);
    }
    let used = wait_until_stable(&memory).await;
    assert_eq!(used, u64::from(4 * CALL), "{memory:?}");
    let mut other = connect(tcp, 3).await;
    other.write_all(&call(7, Gate::NUMBER, 1)).await.unwrap();
    timeout(WAIT, other.read_exact(&mut [0; 32])).await.unwrap().unwrap();
    drop((started, other));
    wait_until_free(&memory).await;
}
