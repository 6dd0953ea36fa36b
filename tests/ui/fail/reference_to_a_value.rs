use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Borrows<'a> {
    value: &'a u64,
}

fn main() {}
