use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    #[xdr(list)]
    values: Vec<u32>,
}

fn main() {}
