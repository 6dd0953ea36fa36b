use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
enum Color {
    #[xdr(case = 0)]
    Red,
    Blue,
}

fn main() {}
