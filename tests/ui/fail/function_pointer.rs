use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Calls {
    call: fn(u32) -> u32,
}

fn main() {}
