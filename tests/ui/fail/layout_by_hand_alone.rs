use rpcrdma_runtime::xdr::{Depth, Layout, Size, Stated, Xdr};

struct Plain;

impl Layout for Plain {
    const MIN: u64 = 4;
    const MAX: Size = Size::Bounded(4);
    const MAX_REDUCED: Size = Size::Bounded(4);
    const ITEM: Size = Size::ZERO;
    const ITEMS: Size = Size::ZERO;
    type Held<D: Depth> = Stated<Self>;
}

#[derive(Xdr)]
struct Args {
    plain: Plain,
}

fn main() {}
