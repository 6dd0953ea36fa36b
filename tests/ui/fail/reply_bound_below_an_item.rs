use rpcrdma_runtime::program::{Binding, Caller, Procedure, Program, ReplyBounds};
use rpcrdma_runtime::xdr::{Opaque, Xdr};
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

#[derive(Xdr)]
struct Photo {
    name: Opaque,
    #[ddp_eligible]
    pixels: Opaque<5000>,
}

struct Get;

impl Procedure for Get {
    type Program = Store;
    type Args = u32;
    type Res = Photo;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "GET";
    const MAX_REPLY: ReplyBounds = ReplyBounds::of::<Photo>().with_reduced(1000).with_item(4999);
}

fn main() {
    let call: Box<dyn Fn(&'static Client) -> Box<dyn Future<Output = Result<Photo, CallError>>>> =
        Box::new(|client| Box::new(client.call::<Get>(&7)));
    drop(call);
}
