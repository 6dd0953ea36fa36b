use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Holds {
    value: Box<dyn Send>,
}

fn main() {}
