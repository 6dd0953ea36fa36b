use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[dpp_eligible]
    data: Opaque,
}

fn main() {}
