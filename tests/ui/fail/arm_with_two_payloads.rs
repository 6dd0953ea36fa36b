use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    Data(u32, u64),
}

fn main() {}
