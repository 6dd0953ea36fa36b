use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    count: u32,
}

fn main() {}
