use rpcrdma_runtime::Client;
use rpcrdma_runtime::program::{Caller, Program};

struct Backward;

impl Program for Backward {
    const NUMBER: u32 = 0x2000_0001;
    const VERSION: u32 = 1;
    const NAME: &'static str = "BACKWARD_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(0, "NULL")];
}

fn carries<P: Program>(_: &impl Caller<P>) {}

fn call(client: &Client) {
    carries::<Backward>(client);
}

fn main() {}
