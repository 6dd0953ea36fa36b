use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = "3 +")]
    values: Vec<u32>,
}

fn main() {}
