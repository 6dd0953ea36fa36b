use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    entries: Vec<Missing>,
}

fn main() {}
