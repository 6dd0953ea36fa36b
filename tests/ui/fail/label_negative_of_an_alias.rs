use rpcrdma_runtime::xdr::Xdr;

type Kind = u64;

#[derive(Xdr)]
#[xdr(union = "Kind")]
enum Part {
    #[xdr(case = -1)]
    Below,
}

fn main() {}
