use rpcrdma_runtime::xdr::Xdr;

const ONE: u32 = 1;
const FIRST: u32 = 1;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Part {
    #[xdr(case = "ONE")]
    One(u64),
    #[xdr(case = "FIRST")]
    First,
    #[xdr(default)]
    Other(u32),
}

fn main() {}
