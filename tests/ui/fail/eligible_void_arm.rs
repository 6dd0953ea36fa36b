use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(union = "i32")]
enum Reply {
    #[xdr(case = 0)]
    Data(Opaque),
    #[xdr(case = 1)]
    #[ddp_eligible]
    Nothing,
}

fn main() {}
