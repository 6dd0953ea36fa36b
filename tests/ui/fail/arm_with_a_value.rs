use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[repr(u32)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    Data(u32) = 0,
}

fn main() {}
