use rpcrdma_runtime::xdr::{Opaque, Xdr, from_slice};

#[derive(Xdr)]
#[xdr(items = 1, largest = 500)]
struct Pair<T> {
    values: [T; 2],
}

#[derive(Xdr)]
struct Content {
    #[ddp_eligible]
    data: Opaque<500>,
}

fn main() {
    let _ = from_slice::<Pair<Content>>(&[0; 8]);
}
