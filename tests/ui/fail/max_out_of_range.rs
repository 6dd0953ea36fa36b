use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = 4294967296)]
    values: Vec<u32>,
}

fn main() {}
