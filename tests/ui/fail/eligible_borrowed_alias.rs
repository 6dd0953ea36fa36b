use rpcrdma_runtime::xdr::{OpaqueRef, Xdr};

type Data<'a> = OpaqueRef<'a, 65536>;

#[derive(Xdr)]
struct Write<'a> {
    #[ddp_eligible]
    data: Data<'a>,
}

fn main() {}
