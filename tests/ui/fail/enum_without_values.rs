use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
enum Color {}

fn main() {}
