use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Inner {
    #[ddp_eligible]
    data: Opaque,
}

#[derive(Xdr)]
struct Outer {
    #[ddp_eligible]
    inner: Inner,
}

fn main() {}
