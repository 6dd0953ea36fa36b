use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(list = true)]
    values: Vec<u32>,
}

fn main() {}
