use rpcrdma_runtime::xdr::Xdr;

fn limit() -> u32 {
    8
}

#[derive(Xdr)]
struct Args {
    #[xdr(max = "limit()")]
    values: Vec<u32>,
}

fn main() {}
