use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
struct Args {
    plain: Option<Vec<Plain>>,
}

fn main() {}
