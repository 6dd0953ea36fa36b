use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    #[xdr(recursive)]
    data: Opaque,
}

fn main() {}
