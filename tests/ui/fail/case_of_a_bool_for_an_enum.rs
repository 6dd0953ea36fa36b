use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = true)]
    Matt(u32),
    #[xdr(default)]
    Shiny(Color),
}

fn main() {}
