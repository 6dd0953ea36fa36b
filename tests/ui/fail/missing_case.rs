use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Xdr)]
#[xdr(union = "i32")]
enum Reply {
    #[xdr(case = 0)]
    Data(Opaque),
    Failed,
}

fn main() {}
