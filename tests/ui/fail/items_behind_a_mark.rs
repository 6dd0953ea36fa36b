use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Folder {
    number: u32,
    #[xdr(recursive)]
    first: Option<Box<File>>,
}

#[derive(Xdr)]
struct File {
    #[ddp_eligible]
    data: Opaque<3000>,
    next: Option<Box<Folder>>,
}

fn main() {}
