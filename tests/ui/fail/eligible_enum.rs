use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    color: Color,
}

fn main() {}
