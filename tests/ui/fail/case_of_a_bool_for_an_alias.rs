use rpcrdma_runtime::xdr::Xdr;

type Kind = u32;

#[derive(Xdr)]
#[xdr(union = "Kind")]
enum Part {
    #[xdr(case = 0)]
    Few(u32),
    #[xdr(case = true)]
    None,
}

fn main() {}
