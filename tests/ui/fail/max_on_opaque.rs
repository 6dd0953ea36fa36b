use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[xdr(max = 8)]
    data: Opaque,
}

fn main() {}
