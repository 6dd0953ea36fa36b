use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u16")]
enum Reply {
    #[xdr(case = 0)]
    Data(u32),
}

fn main() {}
