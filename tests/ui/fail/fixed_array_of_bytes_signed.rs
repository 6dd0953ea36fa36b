use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Key {
    key: [i8; 8],
}

fn main() {}
