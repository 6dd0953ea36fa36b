use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(union = "i32")]
enum Reply {
    #[xdr(case = 0)]
    Data(Opaque),
    #[xdr(default)]
    Failed(#[ddp_eligible] i32, Opaque),
}

fn main() {}
