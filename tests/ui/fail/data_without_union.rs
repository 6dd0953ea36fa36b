use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
enum Reply {
    Data(u32),
    Nothing,
}

fn main() {}
