use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
struct Args {
    plain: [Plain; 3],
}

fn main() {}
