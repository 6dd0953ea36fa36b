use rpcrdma_runtime::xdr::Xdr;

type Kind = i32;

#[derive(Xdr)]
#[xdr(union = "Kind")]
enum Part {
    #[xdr(case = 2147483648)]
    Large,
}

fn main() {}
