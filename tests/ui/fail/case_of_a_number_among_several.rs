use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "Color::Red", case = 1)]
    Matt(Color, u32),
    #[xdr(default)]
    Shiny(Color),
}

fn main() {}
