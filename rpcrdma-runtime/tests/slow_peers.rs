//! The minimum rate of a server: a client that sends the rest of a call too slowly loses its connection. Time
//! is simulated.
#![allow(clippy::unwrap_used)] // tests fail by panicking

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use rpcrdma_runtime::program::{
    Binding, CallContext, Caller, Procedure, Program, Reject, Service, Uncached, answer,
};
use rpcrdma_runtime::provider::iwarp::IwarpOptions;
use rpcrdma_runtime::xdr::{Opaque, Reader, Reducer, Xdr};
use rpcrdma_runtime::{
    CallError, Client, ClientOptions, Server, ServerOptions, TcpClient, TcpClientOptions, TcpOptions,
    TcpServer, TcpServerOptions,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::advance;

/// The length of a call's data, in octets.
const LENGTH: u32 = 512 << 10;
/// The number of octets that reach the server in each [`INTERVAL`].
const PART: usize = 64 << 10;
const INTERVAL: Duration = Duration::from_secs(11);
/// Longer than any test, in simulated time. Other time limits thus cannot close the connection.
const NEVER: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Data {
    #[ddp_eligible]
    data: Opaque<LENGTH>,
}

struct Store;

impl Program for Store {
    const NUMBER: u32 = 0x2000_0079;
    const VERSION: u32 = 1;
    const NAME: &'static str = "STORE";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "PUT")];
}

impl Binding for Store {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &[];
}

struct Put;

impl Procedure for Put {
    type Program = Store;
    type Args = Data;
    type Res = u32;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "PUT";
}

/// Returns the length of the data.
impl Service for Store {
    fn program(&self) -> u32 {
        Store::NUMBER
    }

    fn version(&self) -> u32 {
        Store::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        _: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(answer(args, reply, async |args: Data| {
            u32::try_from(args.data.len()).map_err(|_| Reject::SystemError)
        }))
    }
}

async fn put(client: impl Caller<Store, Error = CallError>) -> Result<u32, CallError> {
    client.call::<Put>(&Data { data: vec![0; LENGTH as usize].into() }).await
}

/// Forwards one connection to the server. Toward the server, forwards [`PART`] octets per [`INTERVAL`].
async fn slow_relay(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut from_client, mut to_client) = listener.accept().await.unwrap().0.into_split();
        let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
        let calls = async {
            let (mut data, mut sent) = (vec![0; PART], 0);
            loop {
                let count = from_client.read(&mut data[sent..]).await?;
                if count == 0 {
                    return Ok(());
                }
                to_server.write_all(&data[sent..sent + count]).await?;
                sent += count;
                if sent == PART {
                    advance(INTERVAL).await;
                    sent = 0;
                }
            }
        };
        let replies = tokio::io::copy(&mut from_server, &mut to_client);
        // An error means that a peer has closed the connection.
        tokio::select! {
            _ = async { calls.await as std::io::Result<()> } => {}
            _ = replies => {}
        }
    });
    address
}

/// Keeps the simulated time from advancing while all other tasks wait.
fn advance_only_explicitly() {
    tokio::spawn(async {
        loop {
            yield_now().await;
        }
    });
}

async fn put_over_tcp(options: TcpOptions) -> Result<u32, CallError> {
    advance_only_explicitly();
    let options = TcpOptions { stall_timeout: NEVER, ..options };
    let server = TcpServerOptions { idle: None, tcp: options, ..TcpServerOptions::default() };
    let server = TcpServer::bind_with("127.0.0.1:0", server).await.unwrap().service(Uncached(Store));
    let address = slow_relay(server.local_addr().unwrap()).await;
    tokio::spawn(server.run(std::future::pending()));
    let client =
        TcpClientOptions { reconnect: None, timeout: NEVER, tcp: options, ..TcpClientOptions::default() };
    put(TcpClient::connect_with(address, client).await.unwrap()).await
}

async fn put_over_iwarp(options: IwarpOptions) -> Result<u32, CallError> {
    advance_only_explicitly();
    let options = IwarpOptions { stall_timeout: NEVER, ..options };
    let server = ServerOptions { idle: None, iwarp: options.clone(), ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", server).await.unwrap().service(Uncached(Store));
    let address = slow_relay(server.local_addr().unwrap()).await;
    tokio::spawn(server.run(std::future::pending()));
    let client =
        ClientOptions { reconnect: None, timeout: NEVER, iwarp: options, ..ClientOptions::default() };
    put(Client::connect_with(address, client).await.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_over_tcp_loses_its_connection() {
    assert!(put_over_tcp(TcpOptions::default()).await.is_err());
    let any_rate = TcpOptions { min_rate: 0, ..TcpOptions::default() };
    assert_eq!(put_over_tcp(any_rate).await.unwrap(), LENGTH);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_over_iwarp_loses_its_connection() {
    assert!(put_over_iwarp(IwarpOptions::default()).await.is_err());
    let any_rate = IwarpOptions { min_rate: 0, ..IwarpOptions::default() };
    assert_eq!(put_over_iwarp(any_rate).await.unwrap(), LENGTH);
}
