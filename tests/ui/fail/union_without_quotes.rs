use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = u32)]
enum Part {
    #[xdr(case = 1)]
    One,
}

fn main() {}
