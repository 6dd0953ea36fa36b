use rpcrdma_runtime::xdr::Xdr;

type Data = Vec<u8>;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    data: Data,
}

fn main() {}
