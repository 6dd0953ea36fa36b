use rpcrdma_runtime::xdr::Xdr;

#[derive(Xdr)]
struct Write<'a> {
    #[ddp_eligible]
    #[xdr(max = 65536)]
    data: &'a [u8],
}

fn main() {}
