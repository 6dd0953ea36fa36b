use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(items = N, largest = 4096)]
struct Row<T, const N: u32> {
    #[xdr(max = N)]
    values: Vec<T>,
}

fn main() {}
