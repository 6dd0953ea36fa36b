use std::collections::HashSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::warn;

use super::CaptureError;
use super::packet::Segment;

/// The magic number of a pcap file with nanosecond timestamps.
const MAGIC: u32 = 0xa1b2_3c4d;
/// The snapshot length in the file header: the maximum length of a captured packet, in octets.
const MAX_PACKET: u32 = 262_144;
/// LINKTYPE_RAW: packets start with the IP header.
const RAW_IP: u32 = 101;
/// Length of the pcap header of each packet, in octets.
const RECORD_HEAD: usize = 16;

/// The addresses of the initiator and the responder of a connection.
pub(super) type Flow = (SocketAddr, SocketAddr);

/// A capture file to which any number of connections can write. Clones share the file, and dropping the last
/// clone ends the capture.
///
/// The format is pcap with IP packets. Each packet is passed to the operating system immediately, so that no
/// captured packet is lost if the process is killed. If a write fails, the capture ends with a `tracing`
/// warning and the connections continue.
#[derive(Clone)]
pub struct CaptureFile(Arc<Shared>);

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    packet: Vec<u8>,
    /// Length of the file up to its last complete packet, in octets; `None` after a failure.
    size: Option<u64>,
    flows: HashSet<Flow>,
    count: u32,
}

impl CaptureFile {
    /// Creates a capture file, or truncates an existing file. On Unix, a new file is readable only by its
    /// owner.
    ///
    /// # Errors
    /// [`CaptureError`] if the file cannot be written or, on Unix, if another capture uses the file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, CaptureError> {
        let path = path.into();
        match begin(&path) {
            Ok(file) => {
                let state =
                    State { file, packet: Vec::new(), size: Some(HEAD_LEN), flows: HashSet::new(), count: 0 };
                Ok(CaptureFile(Arc::new(Shared { path, state: Mutex::new(state) })))
            }
            Err(error) => Err(CaptureError { path, why: error.to_string() }),
        }
    }

    /// Returns the path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns true if all packets so far were written.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lock().size.is_some()
    }

    /// Registers a connection, and returns the number of earlier connections. Returns `None` if the peer is
    /// in the same process and already captures the connection in this file.
    pub(super) fn begin(&self, flow: Flow) -> Option<u32> {
        let mut state = self.lock();
        let number = state.count;
        if !state.flows.insert(flow) {
            return None;
        }
        state.count = state.count.wrapping_add(1);
        Some(number)
    }

    pub(super) fn end(&self, flow: &Flow) {
        self.lock().flows.remove(flow);
    }

    pub(super) fn append(&self, segment: &Segment, payload: &[u8]) {
        let mut state = self.lock();
        let Some(size) = state.size else { return };
        match state.append(segment, payload) {
            Ok(len) => state.size = Some(size.saturating_add(len)),
            Err(error) => {
                state.size = None;
                // Removes the incomplete packet, so that the file ends with a complete packet.
                let _ = state.file.set_len(size);
                warn!(path = %self.0.path.display(), %error, "the capture ended: its file cannot be written");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Appends a packet to the file. Returns the number of octets written.
    fn append(&mut self, segment: &Segment, payload: &[u8]) -> io::Result<u64> {
        let State { file, packet, .. } = self;
        packet.clear();
        packet.resize(RECORD_HEAD, 0);
        segment.write(payload, packet).ok_or(io::ErrorKind::InvalidInput)?;
        let len = u32::try_from(packet.len().saturating_sub(RECORD_HEAD)).map_err(io::Error::other)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The seconds wrap around in 2106, because a pcap file stores 32 bits.
        let seconds = u32::try_from(now.as_secs() & u64::from(u32::MAX)).unwrap_or(0);
        let head = [seconds, now.subsec_nanos(), len, len];
        for (room, word) in packet.chunks_exact_mut(4).zip(head) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all(packet)?;
        Ok(u64::try_from(packet.len()).unwrap_or(0))
    }
}

const HEAD_LEN: u64 = 24;

fn begin(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // The file is truncated only after the attempt to lock it, because another capture may be using it.
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    if file.metadata()?.is_file() {
        // Only on Unix: elsewhere, a lock would prevent other processes from reading the file.
        #[cfg(unix)]
        lock(&file)?;
        file.set_len(0)?;
    }
    let head =
        [MAGIC.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4], MAX_PACKET.to_le_bytes(), RAW_IP.to_le_bytes()];
    file.write_all(head.as_flattened())?;
    Ok(file)
}

#[cfg(unix)]
fn lock(file: &File) -> io::Result<()> {
    use std::fs::TryLockError;
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::other(
            "another capture is being written to the file; add %p (process ID) to the name in RPCRDMA_PCAP",
        )),
        // Continues without a lock, because the file system may not support locks.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

impl PartialEq for CaptureFile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CaptureFile {}

impl fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaptureFile").field(&self.0.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::Flag;
    use super::*;

    fn segment() -> Segment {
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        Segment { from, to, seq: 1, ack: Some(1), flag: Flag::Push }
    }

    #[test]
    fn a_failing_file_ends_only_the_capture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        let capture = CaptureFile::create(&path).unwrap();
        capture.append(&segment(), b"one");
        let complete = std::fs::read(&path).unwrap();
        // The file is open only for reading, so every write fails, as on a full disk.
        capture.lock().file = File::open(&path).unwrap();
        capture.append(&segment(), b"two");
        assert!(!capture.is_complete());
        capture.append(&segment(), b"three");
        assert_eq!(std::fs::read(&path).unwrap(), complete, "earlier packets are intact");
    }

    #[test]
    fn a_capture_is_written_by_one_peer() {
        let dir = tempfile::tempdir().unwrap();
        let capture = CaptureFile::create(dir.path().join("a.pcap")).unwrap();
        let flow = (segment().from, segment().to);
        assert_eq!(capture.begin(flow), Some(0));
        assert_eq!(capture.begin(flow), None);
        capture.end(&flow);
        assert_eq!(capture.begin(flow), Some(1), "a reused port is a new connection");
    }
}
