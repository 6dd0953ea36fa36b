use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
struct Args {
    #[xdr(list)]
    chain: Vec<Plain>,
}

fn main() {}
