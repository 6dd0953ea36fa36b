use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(max = 4)]
    entries: Vec<Missing>,
}

fn main() {}
