use rpcrdma_runtime::xdr::{Opaque, Xdr, XdrString};

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    data: Opaque<0>,
    #[ddp_eligible]
    name: XdrString<0>,
}

fn main() {}
