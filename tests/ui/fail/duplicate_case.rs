use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Xdr)]
enum Color {
    Red = 0,
    Blue = 1,
}

#[derive(Xdr)]
#[xdr(union = "Color")]
enum Paint {
    #[xdr(case = "Color::Red")]
    Red(u32),
    #[xdr(case = "Color::Red")]
    AlsoRed(u64),
}

fn main() {}
