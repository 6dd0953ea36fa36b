use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Marks<'a> {
    marks: &'a [u32],
}

fn main() {}
