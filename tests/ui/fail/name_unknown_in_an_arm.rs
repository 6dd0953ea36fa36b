use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    Entries(Vec<Missing>),
    #[xdr(default)]
    Other(u32),
}

fn main() {}
