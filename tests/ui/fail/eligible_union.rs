use rpcrdma_runtime::xdr::{Opaque, Xdr};

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "Color::Red")]
    Red(Opaque),
    #[xdr(default)]
    Other(Color),
}

#[derive(Xdr)]
struct Args {
    #[ddp_eligible]
    paint: Paint,
}

fn main() {}
