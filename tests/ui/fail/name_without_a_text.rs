use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Args {
    #[xdr(name = 3)]
    first: u32,
    #[xdr(name = "one", name = "two")]
    second: u32,
}

fn main() {}
