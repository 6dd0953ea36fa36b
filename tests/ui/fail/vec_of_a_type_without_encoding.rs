use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
struct Args {
    #[xdr(max = 8)]
    few: Vec<Plain>,
}

fn main() {}
