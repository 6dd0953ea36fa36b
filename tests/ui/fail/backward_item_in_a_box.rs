use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Chapter {
    #[ddp_eligible]
    text: Opaque,
}

#[derive(Xdr)]
#[xdr(backward)]
struct Recall {
    number: u32,
    chapter: Option<Box<Chapter>>,
}

fn main() {}
