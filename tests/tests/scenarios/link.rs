//! The providers, and the connections over which the cases run.

use std::time::Duration;

use bytes::Bytes;
use rpcrdma_runtime::Services;
use rpcrdma_runtime::proto::rdma::{Config, MessageLimits};
use rpcrdma_runtime::provider::{Connection, iwarp};
use rpcrdma_runtime::serve_connection;
use rpcrdma_runtime::wire::private_data::PrivateData;
use rpcrdma_sim::Echo;
use rpcrdma_sim::fabric::{EndConfig, Fabric, FabricConfig};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) struct Limits {
    pub(crate) max_write_chunks: usize,
    pub(crate) max_segments: usize,
}

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) config: Config,
    pub(crate) reads: u32,
}

impl Link {
    /// Limits small enough that a message within the inline threshold can exceed them.
    pub(crate) const LIMITS: Limits = Limits { max_write_chunks: 16, max_segments: 24 };

    /// Returns settings with few credits, so that a case fails if a Receive is not posted again.
    pub(crate) fn of_table() -> Self {
        let private_data = PrivateData::new(false, INLINE, INLINE);
        let Limits { max_write_chunks, max_segments } = Link::LIMITS;
        let limits = MessageLimits { max_write_chunks, max_segments, ..MessageLimits::default() };
        Link { config: Config { credits: 2, private_data, limits, ..Config::default() }, reads: 16 }
    }

    pub(crate) fn receive(&self) -> u32 {
        self.config.private_data.receive_size
    }

    pub(crate) fn private_data(&self) -> Bytes {
        Bytes::copy_from_slice(&self.config.private_data.encode())
    }

    pub(crate) fn iwarp(&self) -> iwarp::IwarpOptions {
        let depth = u16::try_from(self.reads).expect("a few");
        iwarp::IwarpOptions { ird: depth, ord: depth, ..iwarp::IwarpOptions::default() }
    }

    /// Serves [`Echo`] until the connection ends or the returned sender sends `true`.
    pub(crate) fn serve<C: Connection + 'static>(&self, end: C) -> (JoinHandle<()>, watch::Sender<bool>) {
        let (stop, stopping) = watch::channel(false);
        let mut services = Services::new();
        services.add(Echo);
        (tokio::spawn(serve_connection(end, services, self.config, stopping)), stop)
    }
}

/// The inline threshold of the tables, in bytes.
pub(crate) const INLINE: u32 = 1024;

pub(crate) trait Provider: 'static {
    type ClientSide: Connection + 'static;
    type ServerSide: Connection + 'static;
    /// True if the client's provider lets a server invalidate the client's handles.
    const INVALIDATES: bool = true;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide);
}

pub(crate) struct Memory;

impl Provider for Memory {
    type ClientSide = rpcrdma_sim::fabric::End;
    type ServerSide = Self::ClientSide;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        let end = EndConfig {
            private_data: link.private_data(),
            receive_size: link.receive(),
            ird: link.reads,
            ..EndConfig::default()
        };
        let ends = [end.clone(), end];
        let (_, client, server) =
            Fabric::pair(FabricConfig { seed: 11, ends, automatic: true, ..FabricConfig::default() });
        (client, server)
    }
}

pub(crate) struct Iwarp;

impl Provider for Iwarp {
    type ClientSide = iwarp::IwarpConnection;
    type ServerSide = Self::ClientSide;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        over_tcp(link, link.iwarp()).await
    }
}

/// iWARP with markers and without CRCs.
pub(crate) struct Marked;

impl Provider for Marked {
    type ClientSide = iwarp::IwarpConnection;
    type ServerSide = Self::ClientSide;

    async fn connect(link: &Link) -> (Self::ClientSide, Self::ServerSide) {
        over_tcp(link, iwarp::IwarpOptions { markers: true, crc: false, ..link.iwarp() }).await
    }
}

async fn over_tcp(
    link: &Link,
    options: iwarp::IwarpOptions,
) -> (iwarp::IwarpConnection, iwarp::IwarpConnection) {
    let private_data = link.private_data();
    let listener = iwarp::IwarpListener::bind("127.0.0.1:0", options.clone()).await.expect("a free port");
    let address = listener.local_addr().expect("a local address");
    let connecting = iwarp::connect(address, &private_data, link.receive(), &options);
    let (client, server) = tokio::join!(connecting, accepted(&listener, link));
    (client.expect("a connection"), server)
}

pub(crate) async fn accepted(listener: &iwarp::IwarpListener, link: &Link) -> iwarp::IwarpConnection {
    let incoming = listener.accept().await.expect("a connection");
    let request = incoming.request().await.expect("a request");
    request.accept(&link.private_data(), link.receive()).await.expect("accepted")
}

/// Runs a case on a separate thread, for at most 60 seconds. If the case panics or times out, returns the
/// panic message as an error.
pub(crate) async fn isolated<T: Send + 'static, F: Future<Output = T>>(
    case: impl FnOnce() -> F + Send + 'static,
) -> Result<T, String> {
    // The future of a case need not be `Send`, so run it on one thread.
    let running = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let limit = Duration::from_secs(60);
        let ran = runtime.block_on(async { tokio::time::timeout(limit, case()).await });
        ran.unwrap_or_else(|_| panic!("the case timed out"))
    });
    running.await.map_err(|error| match error.try_into_panic() {
        Ok(why) => match why.downcast::<String>() {
            Ok(why) => *why,
            Err(why) => why.downcast_ref::<&str>().copied().unwrap_or("a panic").to_owned(),
        },
        Err(error) => error.to_string(),
    })
}
