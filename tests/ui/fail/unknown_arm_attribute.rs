use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(label = 0)]
    Data(u32),
}

fn main() {}
