use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[ddp_eligible]
struct Nothing;

fn main() {}
