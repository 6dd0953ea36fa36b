use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Box<T> {
    #[ddp_eligible]
    data: Opaque<3000>,
    content: std::boxed::Box<T>,
}

#[derive(Xdr)]
struct Node {
    next: Option<Box<Node>>,
}

fn main() {}
