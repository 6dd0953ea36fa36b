use rpcrdma_runtime::xdr::Xdr;

use Color::Red;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "Color::Red")]
    Matt,
    #[xdr(case = "Color::Blue", case = "Red")]
    Shiny(Color),
}

fn main() {}
