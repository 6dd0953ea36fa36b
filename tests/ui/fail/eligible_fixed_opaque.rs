use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    verifier: [u8; 8],
}

fn main() {}
