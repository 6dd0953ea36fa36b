use rpcrdma_runtime::xdr::Xdr;

const RED: u32 = 0;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "RED")]
    Matt(u32),
    #[xdr(case = "Color::Blue")]
    Shiny,
}

fn main() {}
