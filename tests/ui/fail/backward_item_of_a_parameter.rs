use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Chapter {
    #[ddp_eligible]
    text: Opaque,
}

#[derive(Xdr)]
#[xdr(backward)]
struct Recall<T> {
    number: u32,
    what: T,
}

fn main() {
    let recall = Recall { number: 1, what: Chapter { text: Opaque::default() } };
    let _ = rpcrdma_runtime::xdr::to_bytes(&recall);
}
