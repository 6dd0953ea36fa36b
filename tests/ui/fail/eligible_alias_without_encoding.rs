use rpcrdma_runtime::xdr::Xdr;

struct Plain;
type Data = Plain;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    data: Data,
}

fn main() {}
