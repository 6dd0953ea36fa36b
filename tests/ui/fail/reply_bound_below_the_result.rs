use rpcrdma_runtime::program::{Binding, Caller, Procedure, Program, ReplyBounds};
use rpcrdma_runtime::xdr::{Opaque};
use rpcrdma_runtime::{CallError, Client};

struct Store;

impl Program for Store {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "STORE_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL"), (1, "GET")];
}

impl Binding for Store {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &["rdma"];
}

struct Get;

impl Procedure for Get {
    type Program = Store;
    type Args = u32;
    type Res = Opaque<1000>;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "GET";
    const MAX_REPLY: ReplyBounds = ReplyBounds::of::<Opaque<1000>>().with_unreduced(1003);
}

fn main() {
    let call: Box<dyn Fn(&'static Client) -> Box<dyn Future<Output = Result<Opaque<1000>, CallError>>>> =
        Box::new(|client| Box::new(client.call::<Get>(&7)));
    drop(call);
}
