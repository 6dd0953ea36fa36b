use rpcrdma_runtime::xdr::{Xdr, XdrString};

#[derive(Xdr)]
#[xdr(union = "XdrString")]
enum Reply {
    #[xdr(default)]
    Other(XdrString, u32),
}

fn main() {}
