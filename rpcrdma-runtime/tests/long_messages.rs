//! Calls and results above the default limits: a server accepts the longest calls of its programs, up to half
//! of its memory budget.
#![allow(clippy::unwrap_used)] // tests fail by panicking

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use rpcrdma_runtime::program::{
    Binding, CallContext, Caller, Procedure, Program, Reject, ReplyBounds, Service, Uncached, answer,
};
use rpcrdma_runtime::xdr::{Layout, Opaque, Reader, Reducer, Size, Xdr};
use rpcrdma_runtime::{
    CallError, CallTarget, Client, Limits, MemoryBudget, Server, ServerOptions, Services, TcpClient,
    TcpClientOptions, TcpOptions, TcpServer,
};

/// The maximum length of [`Image::pixels`] in bytes: twice the default limit of 8 MiB for the data of a call.
const BOUND: u32 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Xdr)]
struct Image {
    #[ddp_eligible]
    pixels: Opaque<BOUND>,
}

struct Scan;

impl Program for Scan {
    const NUMBER: u32 = 0x2000_0077;
    const VERSION: u32 = 1;
    const NAME: &'static str = "SCAN";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "TURN")];
}

impl Binding for Scan {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &[];
}

struct Turn;

impl Procedure for Turn {
    type Program = Scan;
    type Args = Image;
    type Res = Image;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "TURN";
}

/// TURN as [`Scanner::Backward`] implements it: the result is a `bool`.
struct TurnBackward;

impl Procedure for TurnBackward {
    type Program = Scan;
    type Args = Image;
    type Res = bool;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "TURN";
}

enum Scanner {
    /// Returns its argument.
    Direct,
    /// Calls the caller's own scanner in the backward direction. Returns true if that scanner returns its
    /// argument.
    Backward,
}

impl Service for Scanner {
    fn program(&self) -> u32 {
        Scan::NUMBER
    }

    fn version(&self) -> u32 {
        Scan::VERSION
    }

    fn max_args(&self) -> u64 {
        Image::LENGTHS.max.bound().unwrap()
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        match self {
            Scanner::Direct => Box::pin(answer(args, reply, async |image: Image| Ok(image))),
            Scanner::Backward => Box::pin(answer(args, reply, async |image: Image| {
                let back = context.backward().ok_or(Reject::SystemError)?;
                back.ready();
                let turned = back.bidirectional().call::<Turn>(&image).await;
                Ok(turned.map_err(|_| Reject::SystemError)? == image)
            })),
        }
    }
}

async fn serve(memory: u64) -> Vec<SocketAddr> {
    let options = ServerOptions { memory: MemoryBudget::new(memory), ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(Uncached(Scanner::Direct));
    let server = server.also_tcp("127.0.0.1:0", TcpOptions::default()).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    addresses
}

fn image(len: usize) -> Image {
    let pixels: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
    Image { pixels: pixels.into() }
}

async fn turn(client: &impl Caller<Scan, Error = CallError>, image: &Image) -> Result<bool, CallError> {
    client.call::<Turn>(image).await.map(|turned| turned == *image)
}

#[tokio::test]
async fn the_longest_calls_and_results_fit_both_transports() {
    let addresses = serve(Limits::default().max_memory).await;
    let image = image(BOUND as usize);
    assert!(turn(&Client::connect(addresses[0]).await.unwrap(), &image).await.unwrap());
    assert!(turn(&TcpClient::connect(addresses[1]).await.unwrap(), &image).await.unwrap());
}

#[tokio::test]
async fn the_longest_backward_calls_fit_tcp() {
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(Uncached(Scanner::Backward));
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let mut backward = Services::new();
    backward.add(Scanner::Direct);
    let options = TcpClientOptions { backward, ..TcpClientOptions::default() };
    let client = TcpClient::connect_with(address, options).await.unwrap();
    assert!(client.call::<TurnBackward>(&image(BOUND as usize)).await.unwrap());
}

#[tokio::test]
async fn a_call_beyond_half_of_the_memory_budget_fails_with_details() {
    let addresses = serve(24 << 20).await;
    let (fits, too_long) = (image((12 << 20) - (65 << 10)), image((12 << 20) + 1));
    let over_rdma = Client::connect(addresses[0]).await.unwrap();
    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let over_tcp = TcpClient::connect_with(addresses[1], once).await.unwrap();
    assert!(turn(&over_rdma, &fits).await.unwrap());
    assert!(turn(&over_tcp, &fits).await.unwrap());
    let reconnecting = TcpClient::connect(addresses[1]).await.unwrap();
    let errors = [
        turn(&over_rdma, &too_long).await,
        turn(&over_tcp, &too_long).await,
        turn(&reconnecting, &too_long).await,
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert!(
            matches!(&error, CallError::TooLong { target, bytes: 12_582_000.., .. } if is_turn(target)),
            "{error}"
        );
        let text = error.to_string();
        for part in ["1258296", "8388608", "MessageLimits::max_transfer", "TcpOptions::max_record"] {
            assert!(text.contains(part), "no {part}: {text}");
        }
    }
}

fn is_turn(target: &CallTarget) -> bool {
    (target.program, target.procedure) == ("SCAN", "TURN")
}

/// TURN with a reply bound that exceeds the maximum size of a chunk.
struct Oversized;

impl Procedure for Oversized {
    type Program = Scan;
    type Args = Image;
    type Res = Image;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "TURN";

    fn reply_bounds(_: &Image) -> ReplyBounds {
        ReplyBounds { item: Size::Bounded(5 << 30), ..ReplyBounds::of::<Image>() }
    }
}

#[tokio::test]
async fn a_reply_whose_bound_exceeds_every_chunk_fails_with_its_bound() {
    let addresses = serve(Limits::default().max_memory).await;
    let client = Client::connect(addresses[0]).await.unwrap();
    let error = client.call::<Oversized>(&image(1)).await.unwrap_err();
    let is_expected = matches!(
        &error,
        CallError::ReplyTooLong { target, bytes: 0x1_4000_0000, max: 0xffff_ffff } if is_turn(target)
    );
    assert!(is_expected, "{error}");
    assert!(error.to_string().contains(r#"[binding.reply."TURN"]"#), "{error}");
    assert!(!error.to_string().contains("no bound"), "{error}");
    assert_eq!(client.stats().failures.unsendable, 1);
}

#[tokio::test]
async fn a_configured_limit_is_not_raised() {
    let mut options = ServerOptions::default();
    options.config.limits.max_transfer = 1 << 20;
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(Scanner::Direct);
    let small = TcpOptions { max_record: 1 << 20, ..TcpOptions::default() };
    let server = server.also_tcp("127.0.0.1:0", small).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let image = image(2 << 20);
    let client = Client::connect(addresses[0]).await.unwrap();
    let over_rdma = turn(&client, &image).await.unwrap_err();
    assert_eq!(client.stats().failures.chunk, 1);
    let once = TcpClientOptions { reconnect: None, ..TcpClientOptions::default() };
    let over_tcp =
        turn(&TcpClient::connect_with(addresses[1], once).await.unwrap(), &image).await.unwrap_err();
    for error in [&over_rdma, &over_tcp] {
        let is_expected =
            matches!(error, CallError::TooLong { target, bytes: 2_097_152.., .. } if is_turn(target));
        assert!(is_expected, "{error}");
        let text = error.to_string();
        assert!(text.contains("MessageLimits::max_transfer, or TcpOptions::max_record over TCP"), "{text}");
    }
    let [over_rdma, over_tcp] = [over_rdma, over_tcp].map(|error| error.to_string());
    assert!(over_rdma.contains("reply of at most 16777220 bytes"), "{over_rdma}");
    assert!(over_rdma.contains(r#"[binding.reply."TURN"]"#), "{over_rdma}");
    // The text says "may", because the connection could also have ended for another reason.
    let call = format!("may not have accepted the call of TURN (program SCAN, peer {}): 20971", addresses[1]);
    assert!(over_tcp.contains(&call), "{over_tcp}");
}

#[tokio::test]
async fn a_reply_over_tcp_beyond_the_limit_of_a_client_fails_with_details() {
    let addresses = serve(Limits::default().max_memory).await;
    let tcp = TcpOptions { max_record: 5000, ..TcpOptions::default() };
    let options = TcpClientOptions { tcp, ..TcpClientOptions::default() };
    let client = TcpClient::connect_with(addresses[1], options).await.unwrap();
    let error = turn(&client, &image(9000)).await.unwrap_err().to_string();
    assert!(
        error.contains("at least 90") && error.contains("limit 5000 (TcpOptions::max_record)"),
        "{error}"
    );
    assert!(turn(&client, &image(1000)).await.unwrap(), "the next connection works");
}
