use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(crate = rpcrdma_runtime)]
struct Args {
    value: u32,
}

fn main() {}
