use std::sync::Arc;

use rpcrdma_conf::{ConfigRdmaReq, vers1};
use rpcrdma_runtime::Client;

// A `Client` is a transport, and its clones share a connection. An `Arc<Client>` is not a transport.
async fn call(client: vers1::Client<Arc<Client>>, request: ConfigRdmaReq) {
    let _ = client.conf_rdma(&request).await;
}

fn main() {}
