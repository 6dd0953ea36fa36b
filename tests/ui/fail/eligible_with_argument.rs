use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible(4096)]
    data: Opaque,
}

fn main() {}
