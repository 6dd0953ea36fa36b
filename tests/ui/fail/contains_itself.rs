use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Endless {
    next: Endless,
}

fn main() {}
