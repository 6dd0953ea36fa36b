use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    byte: u8,
}

fn main() {}
