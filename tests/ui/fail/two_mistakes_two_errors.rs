use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    count: u32,
    #[xdr(list)]
    name: u64,
}

fn main() {}
