use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    Data(u32),
    #[xdr(default, default)]
    Other(u32),
}

fn main() {}
