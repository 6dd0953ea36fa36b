use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    #[ddp_eligible]
    data: Opaque,
}

fn main() {}
