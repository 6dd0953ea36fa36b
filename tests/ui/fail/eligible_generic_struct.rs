use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
struct Carries<T> {
    #[ddp_eligible]
    data: T,
}

fn is_xdr<T: Xdr>() {}

fn main() {
    is_xdr::<Carries<Opaque>>();
    is_xdr::<Carries<u32>>();
}
