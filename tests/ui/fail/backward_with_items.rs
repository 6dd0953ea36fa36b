use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(backward, items = 2, largest = 4096)]
struct Recall {
    next: Option<Box<Recall>>,
}

fn main() {}
