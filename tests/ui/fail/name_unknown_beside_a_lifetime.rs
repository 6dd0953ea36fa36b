use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args<'a> {
    name: &'a str,
    entries: Vec<Missing>,
}

fn main() {}
