//! Calls with borrowed arguments and results over iWARP and TCP, against peers that own or borrow their
//! data.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;

use std::future::Future;
use std::pin::Pin;

use rpcrdma_runtime::program::borrowed::{
    self, Answer, Answered, Arguments, BorrowedCall, BorrowedReply, Lent,
};
use rpcrdma_runtime::program::{CallContext, Caller, Procedure, Program, Reject, ReplyBounds, Service};
use rpcrdma_runtime::xdr::{self, ArrayRef, OpaqueRef, Reader, Reducer, StringRef, Xdr};
use rpcrdma_runtime::{Client, Server};
use rpcrdma_runtime::{TcpClient, TcpServer};
use tokio::sync::oneshot;

use echo::{Blob, Echo, EchoServer, blob};

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
struct BlobRef<'a> {
    name: StringRef<'a>,
    data: OpaqueRef<'a>,
    mark: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Xdr)]
struct NamesRef<'a> {
    names: ArrayRef<'a, StringRef<'a>>,
}

#[derive(Debug)]
struct BorrowedBlob;

impl borrowed::BorrowedProcedure for BorrowedBlob {
    type Program = Echo;
    type Args<'a> = BlobRef<'a>;
    type Res<'a> = BlobRef<'a>;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "ECHO_BLOB";

    fn reply_bounds(args: &BlobRef<'_>) -> ReplyBounds {
        ReplyBounds::of::<BlobRef<'static>>().with_unreduced(xdr::encoded_len(args).unwrap_or(0))
    }
}

#[derive(Debug)]
struct BorrowedNames;

impl borrowed::BorrowedProcedure for BorrowedNames {
    type Program = Echo;
    type Args<'a> = NamesRef<'a>;
    type Res<'a> = NamesRef<'a>;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "ECHO_NAMES";

    fn reply_bounds(args: &NamesRef<'_>) -> ReplyBounds {
        ReplyBounds::of::<NamesRef<'static>>().with_unreduced(xdr::encoded_len(args).unwrap_or(0))
    }
}

/// A procedure that returns the length of a blob's data. The client owns the data and sends it in a Read
/// chunk.
struct Measure;

impl Procedure for Measure {
    type Program = Echo;
    type Args = Blob;
    type Res = u32;
    const NUMBER: u32 = 9;
    const NAME: &'static str = "ECHO_MEASURE";
}

#[derive(Debug)]
struct LentMeasure;

impl borrowed::BorrowedProcedure for LentMeasure {
    type Program = Echo;
    type Args<'a> = BlobRef<'a>;
    type Res<'a> = u32;
    const NUMBER: u32 = 9;
    const NAME: &'static str = "ECHO_MEASURE";
}

struct BorrowingServer;

impl Service for BorrowingServer {
    fn program(&self) -> u32 {
        Echo::NUMBER
    }

    fn version(&self) -> u32 {
        Echo::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            let call = BorrowedCall::new(args)?;
            let answered = match context.procedure {
                1 => Answer::<BorrowedBlob>::new(reply).with(&call.arguments::<BorrowedBlob>()?),
                2 => Answer::<BorrowedNames>::new(reply).with(&call.arguments::<BorrowedNames>()?),
                9 => {
                    let blob = call.arguments::<LentMeasure>()?;
                    Answer::<LentMeasure>::new(reply).with(&u32::try_from(blob.data.len()).unwrap())
                }
                _ => Err(Reject::ProcedureUnavailable),
            };
            answered.map(Answered::done)
        })
    }
}

async fn call_all<C: Caller<Echo, Error: std::fmt::Debug>>(client: &C) {
    for len in [3, 100_003] {
        let owned = blob(5, len);
        let args = BlobRef { name: (&owned.name).into(), data: (&owned.data).into(), mark: owned.mark };
        let reply: BorrowedReply<BorrowedBlob> =
            client.call::<Lent<BorrowedBlob>>(&Arguments::new(&args)).await.unwrap();
        let result = reply.get().unwrap();
        assert_eq!(result, args);
        assert!(reply.as_bytes().as_ptr_range().contains(&result.data.as_ptr()));
    }
    let names: Vec<String> = (0..3000).map(|n| format!("name{n}")).collect();
    let names: Vec<StringRef<'_>> = names.iter().map(|name| name.as_str().into()).collect();
    let args = NamesRef { names: ArrayRef::new(&names) };
    let reply = client.call::<Lent<BorrowedNames>>(&Arguments::new(&args)).await.unwrap();
    assert_eq!(reply.get().unwrap(), args);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn borrowing_and_owning_programs_interoperate() {
    for lent in [false, true] {
        let server = Server::bind("127.0.0.1:0").await.unwrap();
        let server = if lent { server.service(BorrowingServer) } else { server.service(EchoServer) };
        let address = server.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move { server.run(async { drop(stopped.await) }).await });
        let client = Client::connect(address).await.unwrap();
        call_all(&client).await;
        if lent {
            // The data arrives in a chunk and is reinserted into the stream.
            let owned = blob(5, 100_003);
            assert_eq!(Caller::<Echo>::call::<Measure>(&client, &owned).await.unwrap(), 100_003);
        }
        drop(client);
        stop.send(()).unwrap();
        running.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn borrowed_calls_work_over_tcp() {
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap().service(BorrowingServer);
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { server.run(async { drop(stopped.await) }).await });
    let client = TcpClient::connect(address).await.unwrap();
    call_all(&client).await;
    drop(client);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
