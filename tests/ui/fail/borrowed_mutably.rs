use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Scratch<'a> {
    data: &'a mut [u8],
}

fn main() {}
