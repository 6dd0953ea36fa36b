//! Replaces the module `capture` if the feature `capture` is off, and ignores all traffic.

use std::collections::VecDeque;
use std::env;
use std::io;
use std::sync::Once;

use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::warn;

use crate::proto::iwarp::{Agreed, Role};

/// The environment variable that names a capture file in a build with the feature `capture`.
const VARIABLE: &str = "RPCRDMA_PCAP";

/// The destination of captured traffic. Without the feature `capture`, nothing is captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture(());

/// Why a capture failed. Without the feature `capture`, this error does not occur.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {}

#[derive(Debug)]
pub(super) struct Tap;

impl Tap {
    /// Warns once per process if the environment variable [`VARIABLE`] names a capture file.
    pub(super) fn prepare(_: &Capture) -> Result<(), CaptureError> {
        static WARNED: Once = Once::new();
        if env::var_os(VARIABLE).is_some_and(|name| !name.is_empty()) {
            WARNED.call_once(|| {
                warn!("{VARIABLE} is ignored: rpcrdma-runtime was built without its feature `capture`");
            });
        }
        Ok(())
    }

    pub(super) fn open(_: &Capture, _: &TcpStream, _: Role) -> io::Result<Self> {
        Ok(Tap)
    }

    pub(super) fn begin_fpdus(&mut self, _: Agreed) {}

    pub(super) fn sending(&mut self, _: &[u8]) {}

    pub(super) fn sending_all(&mut self, _: &VecDeque<Bytes>) {}

    pub(super) fn sent(&mut self, _: usize) {}

    pub(super) fn received(&mut self, _: &[u8]) {}

    pub(super) fn closed(&mut self) {}

    pub(super) fn peer_closed(&mut self) {}

    pub(super) fn peer_reset(&mut self) {}
}
