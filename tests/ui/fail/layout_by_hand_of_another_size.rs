use rpcrdma_runtime::xdr::{Items, Layout, Lengths, Size};

struct Plain;

impl Layout for Plain {
    const LENGTHS: Lengths = Lengths::fixed(4);
    const HELD: Items = Items::NONE;
    const MAX: Size = Size::Bounded(0);
    const ITEMS: Size = Size::Bounded(1);
}

fn main() {}
