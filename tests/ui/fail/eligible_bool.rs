use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    sync: bool,
}

fn main() {}
