use std::rc::Rc;

use rpcrdma_conf::vers1::Handler;
use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq};
use rpcrdma_runtime::program::{CallContext, Reject};

struct Conf;

async fn get(_: Rc<u32>) {}

impl Handler for Conf {
    async fn conf_rdma(&self, _: &CallContext, _: ConfigRdmaReq) -> Result<ConfigRdmaReply, Reject> {
        get(Rc::new(7)).await;
        Err(Reject::SystemError)
    }
}

fn main() {}
