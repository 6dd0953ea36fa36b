//! Serves Prometheus metrics in text format, and a health check (`/healthz`), over HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The upper bounds of the buckets of every histogram, in seconds.
const BUCKETS: [f64; 14] =
    [50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1.0, 10.0];
/// Maximum number of concurrent requests. A further request aborts the oldest request, because requests of
/// honest clients complete quickly.
const REQUESTS_MAX: usize = 16;
/// Maximum length of a request, in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// Maximum time to receive a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time to receive a request and to send its reply.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Default)]
struct Registry(Arc<Mutex<Metrics>>);

#[derive(Default)]
struct Metrics {
    counters: BTreeMap<Key, Arc<AtomicU64>>,
    gauges: BTreeMap<Key, Arc<AtomicU64>>,
    histograms: BTreeMap<Key, Arc<Buckets>>,
}

/// A histogram. The last element of `counts` is the number of values above all bounds.
#[derive(Default)]
struct Buckets {
    counts: [AtomicU64; BUCKETS.len() + 1],
    nanoseconds: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, seconds: f64) {
        let bucket = BUCKETS.iter().take_while(|bound| **bound < seconds).count();
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let taken = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_nanos();
        self.nanoseconds.fetch_add(u64::try_from(taken).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Metrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn render(&self) -> Result<String, fmt::Error> {
        let metrics = self.lock();
        let mut text = String::new();
        let mut last = String::new();
        let mut begin = |text: &mut String, name: &str, kind: &str| {
            if last == name {
                return Ok(());
            }
            name.clone_into(&mut last);
            writeln!(text, "# TYPE {name} {kind}")
        };
        for (key, count) in &metrics.counters {
            begin(&mut text, key.name(), "counter")?;
            let count = count.load(Ordering::Relaxed);
            writeln!(text, "{}{} {count}", key.name(), labels(key, None))?;
        }
        for (key, value) in &metrics.gauges {
            begin(&mut text, key.name(), "gauge")?;
            let value = f64::from_bits(value.load(Ordering::Relaxed));
            writeln!(text, "{}{} {value}", key.name(), labels(key, None))?;
        }
        for (key, histogram) in &metrics.histograms {
            let name = key.name();
            begin(&mut text, name, "histogram")?;
            let bounds = BUCKETS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
            let mut sum = 0;
            for (bound, count) in bounds.zip(&histogram.counts) {
                sum += count.load(Ordering::Relaxed);
                writeln!(text, "{name}_bucket{} {sum}", labels(key, Some(&bound)))?;
            }
            let taken = Duration::from_nanos(histogram.nanoseconds.load(Ordering::Relaxed));
            writeln!(text, "{name}_sum{} {}", labels(key, None), taken.as_secs_f64())?;
            writeln!(text, "{name}_count{} {sum}", labels(key, None))?;
        }
        Ok(text)
    }
}

/// Formats the labels of a metric. `bound` is the upper bound of a bucket, if any. Label values are names and
/// numbers that this program defines, so they need no escaping.
fn labels(of: &Key, bound: Option<&str>) -> String {
    let labels =
        of.labels().map(|label| (label.key(), label.value())).chain(bound.map(|bound| ("le", bound)));
    let labels: Vec<_> = labels.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

impl Recorder for Registry {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.lock().counters.entry(key.clone()).or_default().clone())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.lock().gauges.entry(key.clone()).or_default().clone())
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.lock().histograms.entry(key.clone()).or_default().clone())
    }
}

pub(crate) struct Exporter {
    listener: TcpListener,
    registry: Registry,
}

impl Exporter {
    /// Binds the address, and starts recording the metrics of the process.
    pub(crate) async fn bind(address: &str) -> anyhow::Result<Self> {
        let registry = Registry::default();
        let bound = TcpListener::bind(address).await;
        let listener = bound.with_context(|| format!("cannot bind the address of --metrics ({address})"))?;
        metrics::set_global_recorder(registry.clone())?;
        rpcrdma_runtime::enable_metrics();
        Ok(Exporter { listener, registry })
    }

    pub(crate) fn url(&self) -> std::io::Result<String> {
        Ok(format!("http://{}/metrics", self.listener.local_addr()?))
    }

    /// Serves requests. `/healthz` reports failure once the sender of `stopping` is dropped.
    pub(crate) async fn run(self, stopping: watch::Receiver<()>) {
        let mut requests: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // Accepting fails, for example, if too many files are open.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            requests.retain(|request| !request.is_finished());
            if requests.len() >= REQUESTS_MAX
                && let Some(oldest) = requests.pop_front()
            {
                oldest.abort();
            }
            let (registry, stopping) = (self.registry.clone(), stopping.clone());
            let request = tokio::spawn(async move {
                // A slow or disconnected client gets no reply.
                let _ = timeout(PATIENCE, answer(stream, &registry, &stopping)).await;
            });
            requests.push_back(request.abort_handle());
        }
    }
}

async fn answer(
    mut stream: TcpStream,
    registry: &Registry,
    stopping: &watch::Receiver<()>,
) -> anyhow::Result<()> {
    let mut request = Vec::new();
    let reading = async {
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            let received = (&mut stream).take(1024).read_buf(&mut request).await?;
            anyhow::ensure!(
                received > 0 && request.len() <= REQUEST_MAX,
                "the HTTP request is incomplete or exceeds {REQUEST_MAX} bytes"
            );
        }
        anyhow::Ok(())
    };
    timeout(REQUEST_TIMEOUT, reading).await??;
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match path {
        _ if method != b"GET" && method != b"HEAD" => {
            ("405 Method Not Allowed", "GET or HEAD only\n".to_owned())
        }
        b"/metrics" => ("200 OK", registry.render()?),
        b"/healthz" if stopping.has_changed().is_ok() => ("200 OK", "ok\n".to_owned()),
        b"/healthz" => ("503 Service Unavailable", "stopping\n".to_owned()),
        _ => ("404 Not Found", "/metrics or /healthz\n".to_owned()),
    };
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nAllow: GET, HEAD\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let reply = if method == b"HEAD" { reply } else { reply + &body };
    stream.write_all(reply.as_bytes()).await?;
    Ok(stream.shutdown().await?)
}
