use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(backward = true)]
struct Recall {
    value: u32,
}

fn main() {}
