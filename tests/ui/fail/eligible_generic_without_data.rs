use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args<T> {
    #[ddp_eligible]
    data: T,
}

fn encodes<T: Xdr>() {}

fn uses() {
    encodes::<Args<Opaque>>();
    encodes::<Args<u64>>();
}

fn main() {}
