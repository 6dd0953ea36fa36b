use std::time::Duration;

use rpcrdma_runtime::proto::session::Reconnect;
use rpcrdma_runtime::provider::iwarp::Keepalive;

// A later version may add an option, which would break this function.
fn often() -> Keepalive {
    Keepalive { idle: Duration::from_secs(1), interval: Duration::from_secs(1), probes: 3 }
}

fn seldom() -> Keepalive {
    Keepalive { probes: 3, ..Keepalive::default() }
}

fn never() -> Reconnect {
    Reconnect { attempts: Some(0), ..Reconnect::default() }
}

fn main() {}
