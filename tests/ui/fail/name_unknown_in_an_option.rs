use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    entries: Option<Box<Missing>>,
}

fn main() {}
