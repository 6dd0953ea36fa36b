use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = 0)]
    Matt(u32),
    #[xdr(case = "Color::Blue")]
    Shiny,
}

fn main() {}
