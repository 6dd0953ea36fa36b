use rpcrdma_runtime::xdr::Xdr;

const ONE: u64 = 1;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Part {
    #[xdr(case = "ONE")]
    One,
    #[xdr(case = 2)]
    Two,
}

fn main() {}
