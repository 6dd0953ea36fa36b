use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    count: usize,
}

fn main() {}
