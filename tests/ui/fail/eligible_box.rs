use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    data: Box<Opaque>,
}

fn main() {}
