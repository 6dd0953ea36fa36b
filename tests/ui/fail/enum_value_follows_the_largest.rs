use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[repr(i64)]
enum Number {
    Largest = 2147483647,
    Next,
    AndNext,
}

fn main() {}
