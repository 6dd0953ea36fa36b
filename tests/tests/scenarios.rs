//! `scenarios.toml` over every provider: the same calls travel in the same way and come back the same,
//! whatever is below. A provider is one more [`Provider`] and one more line in [`each_scenario`].

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rpcrdma_runtime::Client;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::proto::rdma::{Config, LongCall, Traffic};
use rpcrdma_runtime::provider::{Connection, iwarp};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::{ClientOptions, Observer, serve_connection};
use rpcrdma_sim::fabric::{EndConfig, Fabric, FabricConfig};
use rpcrdma_sim::{Args, Echo, Want};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Deserialize)]
struct Scenarios {
    scenario: Vec<Scenario>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    inline: u32,
    #[serde(default = "some")]
    credits: u32,
    #[serde(default = "some")]
    reads: u32,
    #[serde(default = "any")]
    max_segment: u32,
    #[serde(default)]
    long_call: Travel,
    #[serde(default = "yes")]
    remote_invalidation: bool,
    steps: Vec<Step>,
}

fn some() -> u32 {
    16
}

fn any() -> u32 {
    u32::MAX
}

fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Travel {
    #[default]
    Whole,
    Reduced,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    call: [usize; 3],
    want: [u32; 3],
    times: Option<u32>,
    traffic: Told,
    abandon: bool,
    close: bool,
    stop: bool,
}

/// What a scenario tells of how a call travels.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    call_inline: Option<u64>,
    reply_inline: Option<u64>,
    read_chunks: Option<u32>,
    read_bytes: Option<u64>,
    position_zero: Option<u64>,
    write_chunks: Option<u32>,
    write_bytes: Option<u64>,
    reply_chunk: Option<bool>,
    segments: Option<u32>,
    remote_invalidation: Option<bool>,
}

impl Told {
    /// `invalidates`: whether the server may invalidate handles of the client's provider.
    fn check(&self, seen: &Traffic, invalidates: bool) {
        fn same<T: PartialEq + std::fmt::Debug>(name: &str, told: Option<T>, seen: T) {
            if let Some(told) = told {
                assert_eq!(told, seen, "{name}");
            }
        }
        same("call_inline", self.call_inline, seen.call_inline);
        same("reply_inline", self.reply_inline, seen.reply_inline);
        same("read_chunks", self.read_chunks, seen.read_chunks);
        same("read_bytes", self.read_bytes, seen.read_bytes);
        same("position_zero", self.position_zero, seen.position_zero);
        same("write_chunks", self.write_chunks, seen.write_chunks);
        same("write_bytes", self.write_bytes, seen.write_bytes);
        same("reply_chunk", self.reply_chunk, seen.reply_chunk);
        same("segments", self.segments, seen.segments);
        let invalidation = self.remote_invalidation.map(|told| told && invalidates);
        same("remote_invalidation", invalidation, seen.remote_invalidation);
    }
}

impl Scenario {
    fn config(&self) -> Config {
        Config {
            credits: self.credits,
            private_data: PrivateData::new(self.remote_invalidation, self.inline, self.inline),
            max_segment: self.max_segment,
            long_call: match self.long_call {
                Travel::Whole => LongCall::Whole,
                Travel::Reduced => LongCall::Reduced,
            },
            ..Config::default()
        }
    }
}

/// What connects two ends: the client's first, then the server's.
trait Provider {
    type Near: Connection + 'static;
    type Far: Connection + 'static;
    /// Whether the client's provider lets a server invalidate its handles.
    const INVALIDATES: bool = true;

    async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far);
}

struct Memory;

impl Provider for Memory {
    type Near = rpcrdma_sim::fabric::End;
    type Far = Self::Near;

    async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far) {
        let end = EndConfig {
            private_data: Bytes::copy_from_slice(&scenario.config().private_data.encode()),
            receive_size: scenario.inline,
            ird: scenario.reads,
            ..EndConfig::default()
        };
        let ends = [end.clone(), end];
        let (_, client, server) =
            Fabric::pair(FabricConfig { seed: 11, ends, automatic: true, ..FabricConfig::default() });
        (client, server)
    }
}

struct Iwarp;

impl Provider for Iwarp {
    type Near = iwarp::IwarpConnection;
    type Far = Self::Near;

    async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far) {
        let options = iwarp_options(scenario);
        let said = scenario.config().private_data.encode();
        let listener = iwarp::IwarpListener::bind("127.0.0.1:0", options.clone()).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let accept = async {
            let incoming = listener.accept().await.expect("a connection");
            incoming
                .request()
                .await
                .expect("a request")
                .accept(&said, scenario.inline)
                .await
                .expect("accepted")
        };
        let (client, server) =
            tokio::join!(iwarp::connect(address, &said, scenario.inline, &options), accept);
        (client.expect("a connection"), server)
    }
}

fn iwarp_options(scenario: &Scenario) -> iwarp::IwarpOptions {
    let depth = u16::try_from(scenario.reads).expect("a few");
    iwarp::IwarpOptions { ird: depth, ord: depth, ..iwarp::IwarpOptions::default() }
}

/// What can be seen of a run: every call's result and how it travelled, in the order of the steps.
type Seen = Vec<Traffic>;

async fn run<P: Provider>(scenario: &Scenario) -> Seen {
    let (near, far) = P::connect(scenario).await;
    let (stop, stopping) = watch::channel(false);
    let mut services = Services::new();
    services.add(Echo);
    let serving = tokio::spawn(serve_connection(far, services, scenario.config(), stopping));
    // The server has posted its Receives before the client's first Send, as it has where a connection is
    // accepted.
    tokio::task::yield_now().await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = reports.clone();
    let observer = Observer::new(move |report| kept.lock().expect("no panic in here").extend(report.traffic));
    let options =
        ClientOptions { config: scenario.config(), observer: Some(observer), ..ClientOptions::default() };
    let client = Client::over(near, options);
    for (index, step) in scenario.steps.iter().enumerate() {
        let before = reports.lock().expect("no panic in here").len();
        take(step, u32::try_from(index).expect("few steps"), &client, &stop).await;
        for seen in &reports.lock().expect("no panic in here")[before..] {
            step.traffic.check(seen, P::INVALIDATES);
        }
        if step.stop {
            // How many calls are answered until the server hears that it is to stop is a matter of chance.
            reports.lock().expect("no panic in here").truncate(before);
        }
    }
    drop(client);
    serving.await.expect("the server ends");
    Arc::into_inner(reports).map_or_else(Vec::new, |kept| kept.into_inner().expect("no panic in here"))
}

async fn take(step: &Step, index: u32, client: &Client, stop: &watch::Sender<bool>) {
    if step.close {
        client.close();
    }
    if step.stop {
        stop.send(true).expect("the server runs");
        // It says so by closing, which takes a moment.
        while client.call::<Echo>(&Args::new(1, [0; 3], Want::default())).await.is_ok() {}
    }
    if step.close || step.stop {
        let after = client.call::<Echo>(&Args::new(1, [0; 3], Want::default())).await;
        return assert!(after.is_err(), "{after:?}");
    }
    let [note, item, other] = step.want;
    let mut calls = JoinSet::new();
    for number in 0..step.times.unwrap_or(1) {
        let client = client.clone();
        let args = Args::new(index << 16 | number, step.call, Want { note, item, other });
        let abandon = step.abandon;
        calls.spawn(async move {
            let call = client.call::<Echo>(&args);
            if abandon {
                tokio::select! {
                    biased;
                    result = call => drop(result),
                    () = tokio::task::yield_now() => {}
                }
            } else {
                assert_eq!(call.await.expect("a result"), args.result());
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.expect("a call that holds");
    }
}

fn scenarios() -> Vec<Scenario> {
    let text = include_str!("../scenarios.toml");
    let Scenarios { scenario: all } = toml::from_str(text).expect("scenarios");
    assert!(all.len() > 10);
    all
}

/// Requirement: R042, R202
#[tokio::test]
async fn each_scenario_is_the_same_over_each_provider() {
    let all = scenarios();
    let mut failed = Vec::new();
    for scenario in &all {
        let (memory, iwarp) = (alone::<Memory>(scenario).await, alone::<Iwarp>(scenario).await);
        match (memory, iwarp) {
            (Ok(memory), Ok(iwarp)) if memory == iwarp => {}
            (Ok(_), Ok(_)) if scenario.steps.iter().any(|step| step.abandon) => {}
            (memory, iwarp) => {
                failed.push(format!("{}:\n  fabric {memory:?}\n  iwarp {iwarp:?}", scenario.name))
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs a scenario in a task of its own, where it may panic.
async fn alone<P: Provider>(scenario: &Scenario) -> Result<Seen, String> {
    let scenario = scenario.clone();
    // A provider's end is made and used in one place, whatever its future is.
    let running = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let limit = std::time::Duration::from_secs(60);
        let ran = runtime.block_on(async { tokio::time::timeout(limit, run::<P>(&scenario)).await });
        ran.unwrap_or_else(|_| panic!("it does not end"))
    });
    running.await.map_err(|error| match error.try_into_panic() {
        Ok(why) => why.downcast::<String>().map_or_else(|_| "a panic".to_owned(), |why| *why),
        Err(error) => error.to_string(),
    })
}

/// The same over RDMA devices. They run where `RPCRDMA_VERBS` has the address of one: in the lab's guest, for
/// `tests/interop/verbs.rs`.
#[cfg(feature = "verbs")]
mod over_verbs {
    use std::net::{IpAddr, SocketAddr};
    use std::time::Duration;

    use rpcrdma_verbs::{MemoryWindows, VerbsConnection};

    use super::*;

    fn address() -> Option<IpAddr> {
        let address = std::env::var("RPCRDMA_VERBS").ok()?;
        Some(address.parse().expect("RPCRDMA_VERBS: an address"))
    }

    /// Where both ends listen.
    fn here() -> SocketAddr {
        SocketAddr::new(address().expect("RPCRDMA_VERBS"), 0)
    }

    fn options(scenario: &Scenario) -> rpcrdma_verbs::VerbsOptions {
        let depth = u8::try_from(scenario.reads).expect("a few");
        rpcrdma_verbs::VerbsOptions { ird: depth, ord: depth, ..rpcrdma_verbs::VerbsOptions::default() }
    }

    async fn accepted(listener: &rpcrdma_verbs::VerbsListener, scenario: &Scenario) -> VerbsConnection {
        let said = scenario.config().private_data.encode();
        listener.accept().await.expect("a request").accept(&said, scenario.inline).await.expect("accepted")
    }

    struct Verbs;

    impl Provider for Verbs {
        type Near = VerbsConnection;
        type Far = VerbsConnection;
        const INVALIDATES: bool = false;

        async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far) {
            connected(scenario, MemoryWindows::Never).await
        }
    }

    /// Handles are of windows, and the server invalidates them.
    struct Windowed;

    impl Provider for Windowed {
        type Near = VerbsConnection;
        type Far = VerbsConnection;

        async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far) {
            connected(scenario, MemoryWindows::Always).await
        }
    }

    async fn connected(scenario: &Scenario, windows: MemoryWindows) -> (VerbsConnection, VerbsConnection) {
        let said = scenario.config().private_data.encode();
        let options = rpcrdma_verbs::VerbsOptions { windows, ..options(scenario) };
        let listener = rpcrdma_verbs::VerbsListener::bind(here(), options).await.expect("a device");
        let address = listener.local_addr().expect("an address");
        let (near, far) = tokio::join!(
            rpcrdma_verbs::connect(address, &said, scenario.inline, &options),
            accepted(&listener, scenario)
        );
        (near.expect("a connection"), far)
    }

    /// Our iWARP connects to a device that speaks it.
    struct FromIwarp;

    impl Provider for FromIwarp {
        type Near = iwarp::IwarpConnection;
        type Far = VerbsConnection;

        async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far) {
            let said = scenario.config().private_data.encode();
            let listener =
                rpcrdma_verbs::VerbsListener::bind(here(), options(scenario)).await.expect("a device");
            let address = listener.local_addr().expect("an address");
            let own = iwarp_options(scenario);
            let (near, far) = tokio::join!(
                iwarp::connect(address, &said, scenario.inline, &own),
                accepted(&listener, scenario)
            );
            (near.expect("a connection"), far)
        }
    }

    /// A device that speaks iWARP connects to ours.
    struct ToIwarp;

    impl Provider for ToIwarp {
        type Near = VerbsConnection;
        type Far = iwarp::IwarpConnection;
        const INVALIDATES: bool = false;

        async fn connect(scenario: &Scenario) -> (Self::Near, Self::Far) {
            let said = scenario.config().private_data.encode();
            let own = iwarp_options(scenario);
            let listener = iwarp::IwarpListener::bind(here(), own).await.expect("a free port");
            let address = listener.local_addr().expect("an address");
            let accept = async {
                let incoming = listener.accept().await.expect("a connection");
                incoming
                    .request()
                    .await
                    .expect("a request")
                    .accept(&said, scenario.inline)
                    .await
                    .expect("accepted")
            };
            let options = options(scenario);
            let (near, far) =
                tokio::join!(rpcrdma_verbs::connect(address, &said, scenario.inline, &options), accept);
            (near.expect("a connection"), far)
        }
    }

    /// What differs from memory, whose handles a server may invalidate.
    async fn compare<P: Provider>(scenario: &Scenario, called: &str, failed: &mut Vec<String>) {
        let plain = |mut seen: Seen| {
            for call in &mut seen {
                call.remote_invalidation = false;
            }
            seen
        };
        let memory = alone::<Memory>(scenario).await.map(plain);
        let other = alone::<P>(scenario).await.map(plain);
        match (memory, other) {
            (Ok(memory), Ok(other)) if memory == other => {}
            (Ok(_), Ok(_)) if scenario.steps.iter().any(|step| step.abandon) => {}
            (memory, other) => {
                failed.push(format!("{}:\n  fabric {memory:?}\n  {called} {other:?}", scenario.name));
            }
        }
    }

    #[tokio::test]
    async fn each_scenario_is_the_same_over_an_rdma_device() {
        let Some(ip) = address() else {
            return not_run::not_run("RPCRDMA_VERBS is not set: no RDMA device");
        };
        let device = rpcrdma_verbs::device_for(SocketAddr::new(ip, 1), Duration::from_secs(10)).await;
        let name = device.expect("an answer").expect("a device");
        let devices = rpcrdma_verbs::devices().expect("devices");
        let device = devices.iter().find(|device| device.name == name).expect("the same device");
        let mut failed = Vec::new();
        for scenario in &scenarios() {
            compare::<Verbs>(scenario, "verbs", &mut failed).await;
            if device.windows {
                compare::<Windowed>(scenario, "verbs with windows", &mut failed).await;
            }
            if device.iwarp {
                compare::<FromIwarp>(scenario, "iwarp to verbs", &mut failed).await;
                compare::<ToIwarp>(scenario, "verbs to iwarp", &mut failed).await;
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}
