use rpcrdma_runtime::xdr::Xdr;

use std::collections::HashMap;

#[derive(Xdr)]
struct Table {
    rows: HashMap<u32, u32>,
}

fn main() {}
