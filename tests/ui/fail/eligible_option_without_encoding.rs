use rpcrdma_runtime::xdr::Xdr;

struct Plain;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    data: Option<Plain>,
}

fn main() {}
