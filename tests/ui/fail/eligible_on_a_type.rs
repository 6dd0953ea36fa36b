use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[ddp_eligible]
struct Args {
    data: Opaque,
}

fn main() {}
