use rpcrdma_runtime::xdr::Xdr;

const ALL: u32 = 0xffff_ffff;

#[derive(Xdr)]
#[repr(u32)]
enum Mask {
    None = 0,
    All = ALL,
}

fn main() {}
