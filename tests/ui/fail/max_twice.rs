use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = 1, max = 2)]
    values: Vec<u32>,
}

fn main() {}
