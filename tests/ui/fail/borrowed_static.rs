use rpcrdma_runtime::xdr::{StringRef, Xdr};

#[derive(Xdr)]
struct Names {
    first: StringRef<'static, 255>,
    second: &'static str,
}

fn main() {}
