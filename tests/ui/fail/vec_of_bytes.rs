use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    data: Vec<u8>,
}

fn main() {}
