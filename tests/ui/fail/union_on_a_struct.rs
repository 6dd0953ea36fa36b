use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
struct Reply {
    data: u32,
}

fn main() {}
