use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(list, max = 8)]
    values: Vec<u32>,
}

fn main() {}
