use rpcrdma_runtime::xdr::Xdr;

const ONE: u32 = 1;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Part {
    #[xdr(case = "ONNE")]
    One(u64),
    #[xdr(default)]
    Other(u32),
}

fn main() {}
