use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[xdr(ddp_eligible)]
    data: Opaque,
}

fn main() {}
