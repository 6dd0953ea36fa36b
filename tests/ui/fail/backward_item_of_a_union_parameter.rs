use rpcrdma_runtime::xdr::{Opaque, Xdr};

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
    let recall = Recall::Of(Chapter { text: Opaque::default() });
    let _ = rpcrdma_runtime::xdr::to_bytes(&recall);
}
