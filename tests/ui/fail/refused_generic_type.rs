use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Pair<T> {
    first: T,
    second: usize,
}

#[derive(Xdr)]
struct Args {
    pair: Pair<u32>,
}

fn main() {}
