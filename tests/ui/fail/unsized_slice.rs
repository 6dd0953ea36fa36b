use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Values {
    values: [u32],
}

fn main() {}
