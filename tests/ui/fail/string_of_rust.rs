use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Name {
    name: String,
}

fn main() {}
