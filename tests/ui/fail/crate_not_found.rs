use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(crate = "nowhere")]
struct Args {
    value: u32,
}

fn main() {}
