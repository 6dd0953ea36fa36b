use rpcrdma_runtime::xdr::{Depth, Encode, Error, Layout, Sink, Size, Stated, Xdr};

struct Plain;

impl Layout for Plain {
    const MIN: u64 = 4;
    const MAX: Size = Size::Bounded(4);
    const MAX_REDUCED: Size = Size::Bounded(4);
    const ITEM: Size = Size::ZERO;
    const ITEMS: Size = Size::ZERO;
    type Held<D: Depth> = Stated<Self>;
}

impl Encode for Plain {
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        sink.put_u32(7)
    }
}

#[derive(Xdr)]
struct Args {
    plain: Plain,
}

fn main() {}
