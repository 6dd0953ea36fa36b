use rpcrdma_runtime::program::{Binding, Program};
use rpcrdma_runtime::Config;

struct Store;

impl Program for Store {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "STORE_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
}

impl Binding for Store {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &["rdma"];
    const INLINE_THRESHOLD: Option<u32> = Some(4098);
}

fn main() {
    let _ = Config::of::<Store>();
}
