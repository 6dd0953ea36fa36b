use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(maximum = 8)]
    values: Vec<u32>,
}

fn main() {}
