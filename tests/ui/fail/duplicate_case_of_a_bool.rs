use rpcrdma_runtime::xdr::Xdr;

const YES: bool = true;

#[derive(Xdr)]
#[xdr(union = "bool")]
enum Maybe {
    #[xdr(case = true)]
    Here(u32),
    #[xdr(case = false)]
    Away,
    #[xdr(case = "YES")]
    There,
}

fn main() {}
