use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
#[xdr(union = "u32")]
enum Part {
    #[xdr(case = 1)]
    #[xdr(case = 0x1)]
    One(u32),
}

fn main() {}
