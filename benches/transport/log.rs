//! The log of this process. Each row selects what the log records.

use std::io;
use std::sync::OnceLock;

use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Clone, Copy)]
pub(crate) enum Log {
    /// Nothing, as in a program without a log.
    Off,
    /// Events at level INFO and above, and no spans, as in a service.
    Info,
    /// The span of each call, in the client and in the server.
    Spans,
}

impl Log {
    pub(crate) fn select(self) {
        static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();
        let selected = match self {
            Log::Off => Targets::new(),
            Log::Info => Targets::new().with_default(LevelFilter::INFO),
            Log::Spans => Targets::new().with_target("rpcrdma_runtime::calls", LevelFilter::DEBUG),
        };
        FILTER.get_or_init(start).reload(selected).unwrap();
    }
}

/// Starts a log that formats its lines and discards them.
fn start() -> Handle<Targets, Registry> {
    let (filter, handle) = reload::Layer::new(Targets::new());
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_span_events(FmtSpan::CLOSE);
    tracing_subscriber::registry().with(filter).with(lines.with_writer(io::sink)).init();
    handle
}
