use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = 2 * 8)]
    values: Vec<u32>,
}

fn main() {}
