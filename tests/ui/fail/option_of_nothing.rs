use rpcrdma_runtime::xdr::{Xdr};

#[derive(Xdr)]
struct Tick {
    tick: Option<()>,
}

fn main() {}
