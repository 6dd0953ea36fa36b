use rpcrdma_runtime::xdr::{Opaque, Xdr, to_bytes};

#[derive(Xdr)]
#[xdr(items = 0)]
struct Row<T> {
    value: T,
    next: Option<Box<Row<T>>>,
}

#[derive(Xdr)]
struct Content {
    #[ddp_eligible]
    data: Opaque<500>,
}

fn main() {
    let content = Content { data: vec![1].into() };
    let _ = to_bytes(&Row { value: content, next: None });
}
