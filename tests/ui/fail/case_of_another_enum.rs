use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Clone, Xdr)]
enum Metal {
    Iron = 0,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "Metal::Iron")]
    Matt(u32),
    #[xdr(case = "Color::Blue")]
    Shiny,
}

fn main() {}
