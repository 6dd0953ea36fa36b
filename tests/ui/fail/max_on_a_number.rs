use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = 8)]
    count: u32,
}

fn main() {}
