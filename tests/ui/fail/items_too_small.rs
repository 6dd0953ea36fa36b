use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(items = 2, largest = 2999)]
struct Pair {
    #[ddp_eligible]
    first: Opaque<3000>,
    #[ddp_eligible]
    second: Opaque<100>,
}

fn main() {}
