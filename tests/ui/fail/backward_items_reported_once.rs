use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Chapter {
    #[ddp_eligible]
    text: Opaque,
}

#[derive(Xdr)]
#[xdr(backward)]
struct Recall {
    first: Chapter,
    next: Option<Box<Recall>>,
}

fn main() {}
