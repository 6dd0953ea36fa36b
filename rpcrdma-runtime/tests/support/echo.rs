//! A handwritten program, most of whose procedures return their arguments.
// Each test uses only a part of this module.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use rpcrdma_runtime::program::{
    Binding, CallContext, Procedure, Program, Reject, ReplyBounds, Service, answer,
};
use rpcrdma_runtime::xdr::{Decode, Encode, Opaque, Reader, Reducer, Xdr, XdrString};

#[derive(Clone, Debug, PartialEq, Xdr)]
pub struct Blob {
    pub name: XdrString,
    #[ddp_eligible]
    pub data: Opaque,
    pub mark: u32,
}

#[derive(Clone, Debug, PartialEq, Xdr)]
pub struct Names {
    pub names: Vec<XdrString>,
}

pub struct Echo;

impl Program for Echo {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "ECHO";
    const PROGRAM_NAME: &'static str = "ECHO_PROGRAM";
    const PROCEDURES: &'static [(u32, &'static str)] =
        &[(1, "ECHO_BLOB"), (2, "ECHO_NAMES"), (3, "ECHO_SLEEP"), (4, "ECHO_WIDE"), (9, "ECHO_MEASURE")];
}

impl Binding for Echo {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &[];
    const INLINE_THRESHOLD: Option<u32> = Some(8192);
}

pub struct EchoBlob;

impl Procedure for EchoBlob {
    type Program = Echo;
    type Args = Blob;
    type Res = Blob;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "ECHO_BLOB";

    fn reply_bounds(args: &Blob) -> ReplyBounds {
        let bounds = ReplyBounds::of::<Blob>().with_item(args.data.len() as u64);
        bounds.with_reduced(args.name.len() as u64 + 16)
    }
}

pub struct EchoNames;

impl Procedure for EchoNames {
    type Program = Echo;
    type Args = Names;
    type Res = Names;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "ECHO_NAMES";

    fn reply_bounds(args: &Names) -> ReplyBounds {
        ReplyBounds::of::<Names>().with_unreduced(rpcrdma_runtime::xdr::encoded_len(args).unwrap())
    }
}

/// ECHO_NAMES with a reply bound that its replies exceed.
pub struct Narrow;

impl Procedure for Narrow {
    type Program = Echo;
    type Args = Names;
    type Res = Names;
    const NUMBER: u32 = 2;
    const NAME: &'static str = "ECHO_NAMES";

    fn reply_bounds(_: &Names) -> ReplyBounds {
        ReplyBounds::of::<Names>().with_unreduced(8)
    }
}

/// Requests a string of the given length in bytes. The result type allows at most 8 bytes.
pub struct EchoWide;

impl Procedure for EchoWide {
    type Program = Echo;
    type Args = u32;
    type Res = XdrString<8>;
    const NUMBER: u32 = 4;
    const NAME: &'static str = "ECHO_WIDE";
}

pub struct EchoSleep;

impl Procedure for EchoSleep {
    type Program = Echo;
    type Args = u32;
    type Res = u32;
    const NUMBER: u32 = 3;
    const NAME: &'static str = "ECHO_SLEEP";
}

pub const GSS: u32 = 6;

pub struct EchoServer;

impl Service for EchoServer {
    fn program(&self) -> u32 {
        Echo::NUMBER
    }

    fn version(&self) -> u32 {
        Echo::VERSION
    }

    fn accepts_flavor(&self, flavor: u32) -> bool {
        flavor == GSS
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        mut args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            let garbage = |_| Reject::GarbageArguments;
            let failed = |_| Reject::SystemError;
            match context.procedure {
                1 => {
                    let blob = Blob::decode(&mut args).map_err(garbage)?;
                    args.finish().map_err(garbage)?;
                    blob.encode(reply).map_err(failed)
                }
                2 => Names::decode(&mut args).map_err(garbage)?.encode(reply).map_err(failed),
                3 => {
                    let millis = u32::decode(&mut args).map_err(garbage)?;
                    assert_ne!(millis, 14, "this handler panics immediately");
                    tokio::time::sleep(Duration::from_millis(u64::from(millis))).await;
                    assert_ne!(millis, 13, "this handler panics");
                    millis.encode(reply).map_err(failed)
                }
                4 => {
                    let text = async |len: u32| Ok("n".repeat(len as usize).as_str().into());
                    answer::<u32, XdrString<8>, _, _>(args, reply, text).await
                }
                _ => Err(Reject::ProcedureUnavailable),
            }
        })
    }
}

pub fn blob(name: usize, data: usize) -> Blob {
    let bytes: Vec<u8> = (0..data).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect();
    Blob { name: "n".repeat(name).as_str().into(), data: bytes.into(), mark: 0x1234_5678 }
}
