use rpcrdma_runtime::xdr::Xdr;

type Data = Vec<u8>;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 0)]
    #[ddp_eligible]
    Data(Data),
    #[xdr(default)]
    Other(u32),
}

fn main() {}
