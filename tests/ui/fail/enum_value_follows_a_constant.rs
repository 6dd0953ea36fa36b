use rpcrdma_runtime::xdr::Xdr;

const LARGEST: isize = 2147483647;

#[derive(Xdr)]
enum Number {
    Largest = LARGEST,
    Next,
    AndNext,
}

fn main() {}
