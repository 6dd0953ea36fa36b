use rpcrdma_runtime::xdr::{Xdr};

#[derive(Xdr)]
struct Ticks {
    ticks: Vec<()>,
}

fn main() {}
