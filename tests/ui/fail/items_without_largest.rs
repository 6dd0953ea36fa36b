use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(items = 2)]
struct Pair {
    #[ddp_eligible]
    first: Opaque<3000>,
    #[ddp_eligible]
    second: Opaque<100>,
}

#[derive(Xdr)]
#[xdr(largest = 3000)]
struct One {
    #[ddp_eligible]
    first: Opaque<3000>,
}

#[derive(Xdr)]
#[xdr(items = many)]
struct Many {
    #[ddp_eligible]
    first: Opaque<3000>,
}

fn main() {}
