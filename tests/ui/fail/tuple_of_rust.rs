use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Pair {
    both: (u32, u32),
}

fn main() {}
