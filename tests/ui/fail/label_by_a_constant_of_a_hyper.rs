use rpcrdma_runtime::xdr::Xdr;

const ONE: u32 = 1;

#[derive(Xdr)]
#[xdr(union = "u64")]
enum Part {
    #[xdr(case = "ONE")]
    One,
}

fn main() {}
