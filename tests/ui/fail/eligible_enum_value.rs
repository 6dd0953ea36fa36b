use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
enum Color {
    Red = 0,
    #[ddp_eligible]
    Blue = 1,
}

fn main() {}
