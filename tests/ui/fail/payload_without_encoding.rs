use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
#[xdr(union = "bool")]
enum Maybe {
    #[xdr(case = true)]
    Here(Option<Plain>),
    #[xdr(default)]
    Away(bool),
}

fn main() {}
