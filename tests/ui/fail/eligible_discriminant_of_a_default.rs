use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Part {
    #[xdr(default)]
    Other(#[ddp_eligible] u32, u64),
}

fn main() {}
