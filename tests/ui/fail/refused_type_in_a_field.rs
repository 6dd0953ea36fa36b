use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Inner {
    data: Vec<u8>,
}

#[derive(Xdr)]
struct Args {
    inner: Inner,
    other: Option<Box<Inner>>,
}

fn read() -> Option<Args> {
    rpcrdma_runtime::xdr::from_slice(&[]).ok()
}

fn main() {}
