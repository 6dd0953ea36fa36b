use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr]
    values: Vec<u32>,
}

fn main() {}
