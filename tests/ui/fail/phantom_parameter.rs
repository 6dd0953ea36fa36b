use rpcrdma_runtime::xdr::Xdr;

use std::marker::PhantomData;

#[derive(Xdr)]
struct Handle<T> {
    id: u32,
    of: PhantomData<T>,
}

fn main() {}
