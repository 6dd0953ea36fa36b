use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(union = "i32")]
enum Reply {
    #[xdr(case = 0)]
    #[ddp_eligible]
    Data(#[ddp_eligible] Opaque),
    #[xdr(default)]
    Failed(i32),
}

fn main() {}
