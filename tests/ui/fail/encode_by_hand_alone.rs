use rpcrdma_runtime::xdr::{Encode, Error, Items, Layout, Lengths, Sink, Xdr};

struct Plain;

impl Layout for Plain {
    const LENGTHS: Lengths = Lengths::fixed(4);
    const HELD: Items = Items::NONE;
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
