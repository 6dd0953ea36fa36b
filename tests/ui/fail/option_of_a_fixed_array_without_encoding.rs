use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
struct Args {
    plain: Option<Box<[Plain; 2]>>,
}

fn main() {}
