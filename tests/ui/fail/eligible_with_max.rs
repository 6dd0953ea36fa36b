use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    #[xdr(max = 8)]
    data: Opaque,
}

fn main() {}
