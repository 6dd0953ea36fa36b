use rpcrdma_runtime::xdr::Xdr;

const LIMIT: Option<u32> = Some(8);

#[derive(Xdr)]
struct Args {
    #[xdr(max = LIMIT)]
    values: Vec<u32>,
}

fn main() {}
