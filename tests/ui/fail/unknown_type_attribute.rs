use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(discriminant = "u32")]
struct Args {
    count: u32,
}

fn main() {}
