use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone)]
enum Color {
    Red,
    Blue,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "Color::Red")]
    Matt(u32),
    #[xdr(default)]
    Shiny(Color, u32),
}

fn main() {}
