use rpcrdma_runtime::xdr::{SmallOpaque, Xdr};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    handle: SmallOpaque<64>,
}

fn main() {}
