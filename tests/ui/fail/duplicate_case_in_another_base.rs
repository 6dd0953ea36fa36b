use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Reply {
    #[xdr(case = 16)]
    Data(u32),
    #[xdr(case = 0x10)]
    More(u64),
}

fn main() {}
