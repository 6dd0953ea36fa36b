use rpcrdma_runtime::program::{Binding, CallFuture, Caller, Procedure, Program};
use rpcrdma_runtime::{CallError, Client, GssClient};

struct Store;

impl Program for Store {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "STORE_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "GET")];
}

impl Binding for Store {
    const PORT: Option<u16> = Some(0);
    const NETIDS: &'static [&'static str] = &["rdma"];
}

struct Get;

impl Procedure for Get {
    type Program = Store;
    type Args = u32;
    type Res = u32;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "GET";
}

fn get(client: &GssClient<Client, Store>) -> CallFuture<'_, u32, CallError> {
    client.call::<Get>(&1)
}

fn main() {
    let _ = get as fn(&GssClient<Client, Store>) -> CallFuture<'_, u32, CallError>;
}
