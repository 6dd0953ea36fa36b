use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
enum Color {
    Red,
    #[xdr(default)]
    Blue,
}

fn main() {}
