use rpcrdma_runtime::Client;
use rpcrdma_runtime::program::{Caller, Procedure, Program};

struct Files;

impl Program for Files {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "FILES_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "GET")];
}

struct Get;

impl Procedure for Get {
    type Program = Files;
    type Args = u32;
    type Res = u32;
    const NUMBER: u32 = 1;
    const NAME: &'static str = "GET";
}

async fn call(client: &Client) {
    let _ = client.call::<Get>(&3).await;
}

fn main() {}
