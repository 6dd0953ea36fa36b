//! Runs `scenarios.toml`. The traffic of the calls and their results must be the same over every provider.

use std::sync::{Arc, Mutex};

use rpcrdma_runtime::program::Caller;
use rpcrdma_runtime::proto::rdma::{Config, LongCall, Traffic};
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_runtime::{Client, ClientOptions, Observer};
use rpcrdma_sim::{Args, Echo, ResultLengths};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::link::{Link, Provider, isolated};

#[derive(Deserialize)]
struct Scenarios {
    scenario: Vec<Scenario>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    inline: u32,
    #[serde(default = "sixteen")]
    credits: u32,
    #[serde(default = "sixteen")]
    reads: u32,
    #[serde(default = "unlimited")]
    max_segment: u32,
    #[serde(default)]
    long_call: MessageForm,
    #[serde(default = "enabled")]
    remote_invalidation: bool,
    steps: Vec<Step>,
}

fn sixteen() -> u32 {
    16
}

fn unlimited() -> u32 {
    u32::MAX
}

fn enabled() -> bool {
    true
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MessageForm {
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
    traffic: Expected,
    abandon: bool,
    close: bool,
    stop: bool,
}

/// The traffic that a scenario expects of a call. Absent fields are not checked.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
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

impl Expected {
    /// Checks the traffic of a call. `invalidates` is true if the server may invalidate the client's handles.
    fn check(&self, seen: &Traffic, invalidates: bool) {
        fn check_field<T: PartialEq + std::fmt::Debug>(name: &str, expected: Option<T>, seen: T) {
            if let Some(expected) = expected {
                assert_eq!(expected, seen, "{name}");
            }
        }
        check_field("call_inline", self.call_inline, seen.call_inline);
        check_field("reply_inline", self.reply_inline, seen.reply_inline);
        check_field("read_chunks", self.read_chunks, seen.read_chunks);
        check_field("read_bytes", self.read_bytes, seen.read_bytes);
        check_field("position_zero", self.position_zero, seen.position_zero);
        check_field("write_chunks", self.write_chunks, seen.write_chunks);
        check_field("write_bytes", self.write_bytes, seen.write_bytes);
        check_field("reply_chunk", self.reply_chunk, seen.reply_chunk);
        check_field("segments", self.segments, seen.segments);
        let invalidation = self.remote_invalidation.map(|expected| expected && invalidates);
        check_field("remote_invalidation", invalidation, seen.remote_invalidation);
    }
}

impl Scenario {
    /// Returns true if the traffic may differ between runs of this scenario.
    pub(crate) fn varies(&self) -> bool {
        self.steps.iter().any(|step| step.abandon)
    }

    fn link(&self) -> Link {
        let config = Config {
            credits: self.credits,
            private_data: PrivateData::new(self.remote_invalidation, self.inline, self.inline),
            max_segment: self.max_segment,
            long_call: match self.long_call {
                MessageForm::Whole => LongCall::Whole,
                MessageForm::Reduced => LongCall::Reduced,
            },
            ..Config::default()
        };
        Link { config, reads: self.reads }
    }
}

/// The traffic of each call in a run, in the order of the steps. Excludes the calls of steps that stop the
/// server.
pub(crate) type Seen = Vec<Traffic>;

async fn run<P: Provider>(scenario: &Scenario) -> Seen {
    let link = scenario.link();
    let (local, peer) = P::connect(&link).await;
    let (serving, stop) = link.serve(peer);
    // Let the server post its Receives before the client's first Send, as on an accepted connection.
    tokio::task::yield_now().await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = reports.clone();
    let observer = Observer::new(move |report| kept.lock().expect("no panic").extend(report.traffic));
    let options = ClientOptions { config: link.config, observer: Some(observer), ..ClientOptions::default() };
    let client = Client::over(local, options);
    for (index, step) in scenario.steps.iter().enumerate() {
        let before = reports.lock().expect("no panic").len();
        run_step(step, u32::try_from(index).expect("few steps"), &client, &stop).await;
        for seen in &reports.lock().expect("no panic")[before..] {
            step.traffic.check(seen, P::INVALIDATES);
        }
        if step.stop {
            // The number of calls that get replies before the server stops is random.
            reports.lock().expect("no panic").truncate(before);
        }
    }
    drop(client);
    serving.await.expect("the server stops");
    Arc::into_inner(reports).map_or_else(Vec::new, |kept| kept.into_inner().expect("no panic"))
}

async fn run_step(step: &Step, index: u32, client: &Client, stop: &watch::Sender<bool>) {
    if step.close {
        client.close();
    }
    if step.stop {
        stop.send(true).expect("the server runs");
        // Wait until the server closes the connection.
        while client.call::<Echo>(&Args::new(1, [0; 3], ResultLengths::default())).await.is_ok() {}
    }
    if step.close || step.stop {
        let after = client.call::<Echo>(&Args::new(1, [0; 3], ResultLengths::default())).await;
        return assert!(after.is_err(), "{after:?}");
    }
    let [note, item, other] = step.want;
    let mut calls = JoinSet::new();
    for number in 0..step.times.unwrap_or(1) {
        let client = client.clone();
        let args = Args::new(index << 16 | number, step.call, ResultLengths { note, item, other });
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
        call.expect("the call succeeds");
    }
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let text = include_str!("../../scenarios.toml");
    let Scenarios { scenario: all } = toml::from_str(text).expect("scenarios");
    assert!(all.len() > 10);
    all
}

pub(crate) async fn over<P: Provider>(scenario: &Scenario) -> Result<Seen, String> {
    let scenario = scenario.clone();
    isolated(move || async move { run::<P>(&scenario).await }).await
}
