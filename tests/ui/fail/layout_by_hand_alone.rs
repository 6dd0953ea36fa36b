use rpcrdma_runtime::xdr::{Items, Layout, Lengths, Xdr};

struct Plain;

impl Layout for Plain {
    const LENGTHS: Lengths = Lengths::fixed(4);
    const HELD: Items = Items::NONE;
}

#[derive(Xdr)]
struct Args {
    plain: Plain,
}

fn main() {}
