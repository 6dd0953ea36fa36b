//! Metrics of a client and of its server, as a recorder of the crate `metrics` receives them.
#![allow(clippy::unwrap_used)] // tests fail by panicking

#[path = "support/echo.rs"]
mod echo;
#[path = "support/record.rs"]
mod record;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use rpcrdma_runtime::program::{Caller, Credential, Program};
use rpcrdma_runtime::wire::rpc::CallHeader;
use rpcrdma_runtime::xdr::{Encode, Reducer};
use rpcrdma_runtime::{
    Client, ClientOptions, MemoryBudget, Server, ServerOptions, Services, TcpOptions, enable_metrics,
};
use tokio::time::{sleep, timeout};

use echo::{EchoBlob, EchoServer, EchoSleep, Names, Narrow, blob};

/// The memory budget of the server in bytes.
const MEMORY: u32 = 32 << 20;

/// The value of a counter or a gauge, or the number of values in a histogram.
#[derive(Default)]
struct Metric(Mutex<f64>);

impl Metric {
    fn add(&self, number: f64) {
        *self.0.lock().unwrap() += number;
    }
}

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, _: u64) {
        panic!("counters are only incremented");
    }
}

impl GaugeFn for Metric {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = value;
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        assert!(value > 0.0 && value < 600.0, "seconds: {value}");
        self.add(1.0);
    }
}

/// All metrics, by name and labels: `name label=value ...`.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<BTreeMap<String, Arc<Metric>>>>);

impl Metrics {
    fn metric(&self, key: &Key) -> Arc<Metric> {
        let labels: String =
            key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect();
        self.0.lock().unwrap().entry(format!("{}{labels}", key.name())).or_default().clone()
    }

    /// Returns the metrics whose names start with `start`, except metrics with the value 0. The returned
    /// names omit `start`.
    fn of(&self, start: &str) -> Vec<(String, f64)> {
        let metrics = self.0.lock().unwrap();
        let named = metrics.iter().filter_map(|(name, metric)| {
            Some((name.strip_prefix(start)?.to_owned(), *metric.0.lock().unwrap()))
        });
        named.filter(|(_, value)| *value != 0.0).collect()
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.metric(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(key))
    }
}

fn named<const N: usize>(metrics: [(&str, f64); N]) -> Vec<(String, f64)> {
    metrics.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Sends ECHO_SLEEP with a fixed XID on a new connection, and returns the reply.
async fn send_over_tcp(address: SocketAddr) -> Vec<u8> {
    let (program, version, procedure) = (echo::Echo::NUMBER, 1, 3);
    let call = CallHeader { xid: 77, program, version, procedure, credential: Credential::None };
    let mut sink = Reducer::disabled();
    call.encode(&mut sink).unwrap();
    0u32.encode(&mut sink).unwrap();
    record::exchange(address, &sink.into_message().stream).await
}

/// Connects a client that serves backward calls. The memory budget of this client must not appear in the
/// server's metrics.
async fn client_with_backward_programs(server: SocketAddr) -> Client {
    let mut backward = Services::new();
    backward.add(EchoServer);
    let options = ClientOptions { backward, ..ClientOptions::default() };
    Client::connect_with(server, options).await.unwrap()
}

/// All metrics are checked in one test, because a process has one recorder.
#[tokio::test]
async fn metrics_of_a_client_and_its_server_count_known_traffic() {
    let metrics = Metrics::default();
    metrics::set_global_recorder(metrics.clone()).unwrap();
    drop(Server::bind("127.0.0.1:0").await.unwrap());
    assert!(metrics.0.lock().unwrap().is_empty(), "metrics were recorded before `enable_metrics`");
    enable_metrics();
    let options = ServerOptions { memory: MemoryBudget::new(MEMORY.into()), ..ServerOptions::default() };
    let server = Server::bind_with("127.0.0.1:0", options).await.unwrap().service(EchoServer);
    let server = server.also_tcp("127.0.0.1:0", TcpOptions::default()).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let client = Client::connect(("127.0.0.1", addresses[0].port())).await.unwrap();
    for _ in 0..3 {
        client.call::<EchoBlob>(&blob(7, 5000)).await.unwrap();
    }
    // The handler panics.
    client.call::<EchoSleep>(&14).await.unwrap_err();
    let counted = client.stats();
    assert_eq!((counted.traffic.calls, counted.failures.rejected), (3, 1));

    let all = named([("1", 3.0), ("3", 1.0)]);
    // A server does not record the duration of a call whose handler panics.
    for (role, calls) in [("client", &all[..]), ("server", &all[..1])] {
        let name = format!("rpcrdma_{role}_call_duration_seconds program=536870913 version=1 procedure=");
        assert_eq!(metrics.of(&name), calls, "{role}");
        let by_rdma = [("read", 15_000.0), ("write", 15_000.0)];
        assert_eq!(metrics.of(&format!("rpcrdma_{role}_bytes_total kind=rdma_")), named(by_rdma), "{role}");
        let inline = metrics.of(&format!("rpcrdma_{role}_bytes_total kind="));
        assert!(inline.iter().any(|(kind, bytes)| kind == "call_inline" && *bytes > 300.0), "{inline:?}");
        assert!(!metrics.of(&format!("rpcrdma_{role}_credits")).is_empty(), "{role}");
    }
    assert_eq!(metrics.of("rpcrdma_client_failures_total kind="), named([("rejected", 1.0)]));
    assert_eq!(metrics.of("rpcrdma_client_sessions_total kind="), named([("connections", 1.0)]));
    let replies = [("success", 3.0), ("system_error", 1.0)];
    assert_eq!(metrics.of("rpcrdma_server_replies_total kind="), named(replies));
    assert_eq!(metrics.of("rpcrdma_server_connections"), named([("", 1.0), ("_total kind=made", 1.0)]));

    // The bound of the reply is too low.
    let names = Names { names: vec!["n".repeat(9000).as_str().into()] };
    client.call::<Narrow>(&names).await.unwrap_err();
    assert_eq!(metrics.of("rpcrdma_server_refusals_total kind="), named([("room", 1.0)]));
    let failures = named([("chunk", 1.0), ("rejected", 1.0)]);
    assert_eq!(metrics.of("rpcrdma_client_failures_total kind="), failures);
    // A client retransmits a call.
    let replies = [send_over_tcp(addresses[1]).await, send_over_tcp(addresses[1]).await];
    assert_eq!(replies[0], replies[1]);
    let duplicates = metrics.of("rpcrdma_server_duplicates_total kind=");
    assert!(duplicates.contains(&("replayed".to_owned(), 1.0)), "{duplicates:?}");
    let called = client_with_backward_programs(addresses[0]).await;
    assert_eq!(metrics.of("rpcrdma_server_memory_max_bytes"), named([("", f64::from(MEMORY))]));
    drop((client, called));
    serving.abort();
    let _ = serving.await;
    let ended = async {
        while !metrics.of("rpcrdma_client_credits").is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(30), ended).await.unwrap();
}
