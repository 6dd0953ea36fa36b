use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(items(2))]
struct Pair {
    #[ddp_eligible]
    first: Opaque<3000>,
    #[ddp_eligible]
    second: Opaque<100>,
}

#[derive(Xdr)]
#[xdr(items = 2)]
struct Other {
    #[ddp_eligible]
    first: Opaque<3000>,
}

fn main() {}
