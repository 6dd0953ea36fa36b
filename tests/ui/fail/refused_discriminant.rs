use rpcrdma_runtime::xdr::Xdr;

#[derive(Clone, Copy, Xdr)]
enum Kind {
    Plain = 0,
    Large = 4294967296,
}

#[derive(Xdr)]
#[xdr(union = "Kind")]
enum Part {
    #[xdr(case = "Kind::Plain")]
    Plain(Kind),
    #[xdr(default)]
    Other(Kind, u32),
}

fn number(kind: Kind) -> i32 {
    i32::from(kind)
}

fn main() {}
