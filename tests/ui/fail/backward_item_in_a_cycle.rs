use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Chapter {
    #[ddp_eligible]
    text: Opaque,
    next: Option<Box<Recall>>,
}

#[derive(Xdr)]
#[xdr(backward)]
struct Recall {
    number: u32,
    #[xdr(recursive)]
    chapters: Chapters,
}

type Chapters = Vec<Chapter>;

fn main() {}
