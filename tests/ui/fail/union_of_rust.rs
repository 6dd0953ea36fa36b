use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
union Reply {
    data: u32,
}

fn main() {}
