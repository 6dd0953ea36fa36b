use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    data: Option<Opaque>,
}

fn main() {}
