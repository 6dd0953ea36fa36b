use rpcrdma_runtime::program::{BackwardOnly, Binding, Program};

struct Callback;

impl Program for Callback {
    const NUMBER: u32 = 0x4000_0000;
    const VERSION: u32 = 1;
    const NAME: &'static str = "CALLBACK_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
}

impl Binding for Callback {
    const PORT: Option<u16> = None;
    const NETIDS: &'static [&'static str] = &[];
}

impl BackwardOnly for Callback {}

fn main() {}
