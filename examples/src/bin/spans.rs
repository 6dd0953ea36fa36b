//! Exports the spans of a client and of a server through OpenTelemetry: `cargo run -p rpcrdma-examples
//! --features opentelemetry --bin spans`.
//!
//! Client and server each create one span per call. RPC carries no trace context, so the two spans belong to
//! separate traces. The XID and the addresses of the connection correlate the spans. This exporter prints a
//! line per span. In production, use an exporter that sends spans to a collector, for example from the crate
//! `opentelemetry-otlp`.

use std::io::Write;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use rpcrdma_conf::{ConfigRdmaReply, ConfigRdmaReq, vers1};
use rpcrdma_runtime::program::{CallContext, Reject};
use rpcrdma_runtime::{Client, Server};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Debug)]
struct Printer;

impl SpanExporter for Printer {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let mut out = std::io::stdout().lock();
        let printed = spans.iter().try_for_each(|span| {
            let took = span.end_time.duration_since(span.start_time).unwrap_or_default();
            write!(out, "{:?} {} {}us", span.span_kind, span.name, took.as_micros())?;
            for attribute in &span.attributes {
                write!(out, " {}={}", attribute.key, attribute.value)?;
            }
            writeln!(out)
        });
        printed.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }
}

struct Generous;

impl vers1::Handler for Generous {
    async fn conf_rdma(&self, _: &CallContext, request: ConfigRdmaReq) -> Result<ConfigRdmaReply, Reject> {
        let ConfigRdmaReq { maxcall_sendsize, maxrdmaread, .. } = request;
        Ok(ConfigRdmaReply { maxcall_sendsize, align: 0, maxrdmaread })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(Printer).build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("rpcrdma"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    // All spans of calls have this target.
    let calls = Targets::new().with_target("rpcrdma_runtime::calls", LevelFilter::DEBUG);
    tracing_subscriber::registry().with(layer.with_filter(calls)).init();

    let server = Server::bind("127.0.0.1:0").await?.service(vers1::Server(Generous));
    let address = server.local_addr()?;
    tokio::spawn(server.run(std::future::pending()));
    let client = vers1::Client(Client::connect(address).await?);
    for size in [4096, 65_536] {
        let request = ConfigRdmaReq { maxcall_sendsize: size, maxreply_sendsize: size, maxrdmaread: 64 };
        client.conf_rdma(&request).await?;
    }
    Ok(provider.shutdown()?)
}
