use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Part<'a> {
    #[xdr(case = 1)]
    Text(&'a String),
}

fn main() {}
