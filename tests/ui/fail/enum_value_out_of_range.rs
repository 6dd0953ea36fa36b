use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
enum Color {
    Red = 0,
    Blue = 4294967295,
}

fn main() {}
