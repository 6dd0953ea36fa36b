use rpcrdma_runtime::xdr::{Bytes, Opaque, Xdr, from_bytes};

#[derive(Xdr)]
struct Chapter {
    #[ddp_eligible]
    text: Opaque,
}

#[derive(Xdr)]
#[xdr(backward, union = "bool")]
enum Recall<T> {
    #[xdr(case = true)]
    Of(T),
    #[xdr(case = false)]
    Nothing,
}

fn main() {
    let _ = from_bytes::<Recall<Chapter>>(&Bytes::new());
}
