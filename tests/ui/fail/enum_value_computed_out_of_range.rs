use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[repr(i64)]
enum Size {
    Small = 1,
    Large = 1 << 40,
    Larger,
}

fn main() {}
