use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(backward)]
struct Recall {
    handle: Opaque<64>,
    #[ddp_eligible]
    reason: Opaque,
}

fn main() {}
