use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    entries: Missing,
}

fn main() {}
