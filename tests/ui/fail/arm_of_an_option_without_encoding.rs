use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    Nothing,
    #[xdr(default)]
    Other(u32, Option<Box<Plain>>),
}

fn main() {}
