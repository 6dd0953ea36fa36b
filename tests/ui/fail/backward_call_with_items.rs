use rpcrdma_runtime::{BackwardClient, CallError};
use rpcrdma_runtime::program::{Backward, BackwardOnly, Directed, Procedure, Program};
use rpcrdma_runtime::xdr::{Opaque, Xdr};

struct Callback;

impl Program for Callback {
    const NUMBER: u32 = 0x4000_0000;
    const VERSION: u32 = 1;
    const NAME: &'static str = "CALLBACK_V1";
    const PROCEDURES: &'static [(u32, &'static str)] = &[(1, "PUSH")];
    const BACKWARD_ONLY: bool = true;
}

impl Directed for Callback {
    type Direction = Backward;
}

impl BackwardOnly for Callback {}

#[derive(Xdr)]
struct Pushed {
    #[ddp_eligible]
    data: Opaque,
}

struct Push;

impl Procedure for Push {
    type Program = Callback;
    type Args = Pushed;
    type Res = ();
    const NUMBER: u32 = 1;
    const NAME: &'static str = "PUSH";
}

pub async fn push(client: &BackwardClient, data: Opaque) -> Result<(), CallError> {
    client.call::<Push>(&Pushed { data }).await
}

fn main() {}
