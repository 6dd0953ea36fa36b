use rpcrdma_runtime::xdr::Xdr;

type Data = Vec<u8>;

#[derive(Xdr)]
struct Args {
    data: Data,
}

fn main() {}
