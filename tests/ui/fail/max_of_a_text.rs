use rpcrdma_runtime::xdr::Xdr;

const LIMIT: &str = "8";

#[derive(Xdr)]
struct Args {
    #[xdr(max = LIMIT)]
    values: Vec<u32>,
}

fn main() {}
