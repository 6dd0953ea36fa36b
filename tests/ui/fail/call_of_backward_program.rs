use rpcrdma_runtime::Client;
use rpcrdma_runtime::program::{Backward, BackwardOnly, Caller, Directed, Program};

struct Callback;

impl Program for Callback {
    const NUMBER: u32 = 0x4000_0000;
    const VERSION: u32 = 1;
    const NAME: &'static str = "CALLBACK_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
}

impl Directed for Callback {
    type Direction = Backward;
}

impl BackwardOnly for Callback {}

fn carries<P: Program>(_: &impl Caller<P>) {}

fn call(client: &Client) {
    carries::<Callback>(client);
}

fn main() {}
