use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max)]
    values: Vec<u32>,
}

fn main() {}
