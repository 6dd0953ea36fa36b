use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = "(-1)")]
    values: Vec<u32>,
}

fn main() {}
