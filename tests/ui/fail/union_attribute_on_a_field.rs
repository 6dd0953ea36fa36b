use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(union = "u32")]
    value: u32,
}

fn main() {}
