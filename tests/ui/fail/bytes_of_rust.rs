use rpcrdma_runtime::xdr::Xdr;

use rpcrdma_runtime::xdr::Bytes;

#[derive(Xdr)]
struct Data {
    data: Bytes,
}

fn main() {}
