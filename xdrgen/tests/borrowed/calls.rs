//! A server and a client of MOUNT version 3 with borrowed types, connected in memory.

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rpcrdma_runtime::program::borrowed::{Answer, Answered};
use rpcrdma_runtime::program::{
    CallContext, CallFuture, CallTransport, Caller, Credential, Extensions, Procedure, Reject, Service,
};
use rpcrdma_runtime::xdr::{self, ArrayRef, Item, ListRef, Placed, Reader, Received, Reducer};

use borrowed::mount3_ref::mount_v3::{Client, Handler, MountV3, Server, proc};
use borrowed::mount3_ref::{Dirpath, ExportnodeElement, Exports, GroupnodeElement, Groups, Mountlist, Mountres3, Mountres3Ok};

/// Runs a future that is ready at the first poll.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future is not ready"),
    }
}

struct Mounts;

impl Handler for Mounts {
    async fn mnt(
        &self,
        _: &CallContext,
        args: Dirpath<'_>,
        answer: Answer<'_, proc::Mnt>,
    ) -> Result<Answered, Reject> {
        if args.is_empty() {
            return Err(Reject::SystemError);
        }
        // The result borrows from the arguments and from the handler's own memory.
        let flavors = [1, 6];
        answer.with(&Mountres3::Mnt3Ok(Mountres3Ok {
            fhandle: args.as_slice().into(),
            auth_flavors: ArrayRef::new(&flavors),
        }))
    }

    async fn dump(&self, _: &CallContext, answer: Answer<'_, proc::Dump>) -> Result<Answered, Reject> {
        answer.with(&Mountlist::default())
    }

    async fn umnt(
        &self,
        _: &CallContext,
        args: Dirpath<'_>,
        answer: Answer<'_, proc::Umnt>,
    ) -> Result<Answered, Reject> {
        assert_eq!(args.to_str(), Ok("/somewhere"));
        answer.with(&())
    }

    fn umntall(
        &self,
        _: &CallContext,
        answer: Answer<'_, proc::Umntall>,
    ) -> impl Future<Output = Result<Answered, Reject>> + Send {
        ready(answer.with(&()))
    }

    async fn export(&self, _: &CallContext, answer: Answer<'_, proc::Export>) -> Result<Answered, Reject> {
        let names: Vec<String> = (0..3).map(|n| format!("group{n}")).collect();
        let groups: Vec<_> = names.iter().map(|name| GroupnodeElement { gr_name: name.as_str().into() }).collect();
        let node = ExportnodeElement { ex_dir: "/exported".into(), ex_groups: Groups(ListRef::new(&groups)) };
        answer.with(&Exports(ListRef::new(&[node])))
    }
}

fn dispatch(procedure: u32, args: Reader<'_>) -> Result<Received, Reject> {
    let context = CallContext {
        xid: 1,
        program: 100_005,
        version: 3,
        procedure,
        credential: Credential::None,
        peer: None,
        extensions: Extensions::default(),
    };
    let mut reply = Reducer::disabled();
    run(Server(Mounts).dispatch(&context, args, &mut reply))?;
    Ok(Received::unreduced(reply.into_message().stream))
}

struct MessageTransport;

impl CallTransport for MessageTransport {
    type Error = Reject;
}

impl Caller<MountV3> for MessageTransport {
    fn call<'a, Q: Procedure<Program = MountV3>>(
        &'a self,
        args: &'a Q::Args,
    ) -> CallFuture<'a, Q::Res, Reject> {
        Box::pin(async {
            let args = xdr::to_bytes(args).map_err(|_| Reject::GarbageArguments)?;
            let reply = dispatch(Q::NUMBER, Reader::from_bytes(&args))?;
            xdr::from_bytes(&reply.stream).map_err(|_| Reject::SystemError)
        })
    }
}

#[test]
fn client_and_server_exchange_borrowed_types() {
    let client = Client(MessageTransport);
    let reply = run(client.mnt(&"/exported".into())).unwrap();
    let Mountres3::Mnt3Ok(mounted) = reply.get().unwrap() else { panic!("{reply:?}") };
    assert_eq!((mounted.fhandle.as_slice(), mounted.auth_flavors.to_vec()), (&b"/exported"[..], vec![1, 6]));
    assert!(reply.as_bytes().as_ptr_range().contains(&mounted.fhandle.as_ptr()));

    let exports = run(client.export()).unwrap();
    let node = exports.get().unwrap().0.iter().next().unwrap();
    let groups: Vec<_> = node.ex_groups.0.iter().map(|group| group.gr_name.to_str().unwrap()).collect();
    assert_eq!(groups, ["group0", "group1", "group2"]);
    assert!(run(client.dump()).unwrap().get().unwrap().0.is_empty());
    run(client.null()).unwrap().get().unwrap();
    run(client.umntall()).unwrap().get().unwrap();

    // A call fails if a value in the arguments or in the result exceeds its bound.
    let long = "x".repeat(1025);
    assert!(matches!(run(client.mnt(&long.as_str().into())), Err(Reject::GarbageArguments)));
    let long = "x".repeat(65);
    assert!(matches!(run(client.mnt(&long.as_str().into())), Err(Reject::SystemError)));
    assert!(matches!(dispatch(9, Reader::from_slice(&[])), Err(Reject::ProcedureUnavailable)));
    assert!(matches!(dispatch(3, Reader::from_slice(&[0, 0, 0, 9])), Err(Reject::GarbageArguments)));
}

#[test]
fn arguments_from_a_chunk_are_reinserted() {
    let item = |position, data: &'static [u8]| Item { position, data: data.into() };
    let call = |items| Received { stream: vec![0, 0, 0, 10].into(), items: Placed::Positioned(items) };
    for data in [&b"/somewhere"[..], b"/somewhere\0\0"] {
        let received = call(vec![item(4, data)]);
        assert!(dispatch(3, Reader::new(&received)).unwrap().stream.is_empty());
    }
    for wrong in [item(8, b"/somewhere"), item(4, b"/some"), item(0, b"/somewhere"), item(4, b"/somewhere\0x")] {
        let received = call(vec![wrong]);
        assert!(matches!(dispatch(3, Reader::new(&received)), Err(Reject::GarbageArguments)));
    }
}
