use rpcrdma_runtime::xdr::{OpaqueRef, Xdr};

#[derive(Xdr)]
struct Write<'a> {
    #[ddp_eligible]
    data: OpaqueRef<'a, 65536>,
}

fn main() {}
