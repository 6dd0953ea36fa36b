use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "bool")]
enum Reply {
    #[xdr(case = true)]
    Data(u32),
    #[xdr(case = 0)]
    Nothing,
}

fn main() {}
