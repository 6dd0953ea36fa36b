use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    #[xdr(max = 8)]
    values: Vec<u32>,
}

fn main() {}
