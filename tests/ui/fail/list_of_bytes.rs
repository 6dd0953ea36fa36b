use rpcrdma_runtime::xdr::{Xdr};

#[derive(Xdr)]
struct Lines {
    #[xdr(list)]
    lines: Vec<u8>,
}

fn main() {}
