use rpcrdma_runtime::xdr::{OpaqueRef, Xdr};

#[derive(Xdr)]
struct Handle<'a> {
    #[xdr(max = 64)]
    data: OpaqueRef<'a>,
}

fn main() {}
