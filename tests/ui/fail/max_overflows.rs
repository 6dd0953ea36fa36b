use rpcrdma_runtime::xdr::Xdr;

const LIMIT: u32 = 8;

#[derive(Xdr)]
struct Args {
    #[xdr(max = "LIMIT - 10")]
    values: Vec<u32>,
}

fn main() {}
