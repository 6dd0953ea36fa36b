use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = LIMIT)]
    values: Vec<u32>,
}

fn main() {}
