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

/// The head of a pcap file whose times are in nanoseconds: magic number, version 2.4, the longest packet, link type.
const MAGIC: u32 = 0xa1b2_3c4d;
const MAX_PACKET: u32 = 262_144;
/// LINKTYPE_RAW: packets begin with the header of IP.
const RAW_IP: u32 = 101;
/// Octets in front of each packet.
const RECORD_HEAD: usize = 16;

/// The ends of a connection: who asked for it, and who was asked.
pub(super) type Flow = (SocketAddr, SocketAddr);

/// A capture that connections write to, as many as like. Clones are the same file. It ends with the last of them.
///
/// It is a pcap file with packets of IP. Each packet is given to the system at once: when the process ends in whatever way,
/// nothing that it had captured is lost. If the file cannot be written any more, the capture ends, and a `tracing` warning
/// says so; connections go on.
#[derive(Clone)]
pub struct CaptureFile(Arc<Shared>);

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// One packet, as it is made.
    packet: Vec<u8>,
    /// Octets of the file that are whole packets; `None` once it has failed.
    good: Option<u64>,
    flows: HashSet<Flow>,
    begun: u32,
}

impl CaptureFile {
    /// Begins a capture. What the file held is gone. A new file is for its owner only.
    ///
    /// # Errors
    /// [`CaptureError`]: the file cannot be opened or written, or somebody else is writing a capture to it.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, CaptureError> {
        let path = path.into();
        match begin(&path) {
            Ok(file) => {
                let state =
                    State { file, packet: Vec::new(), good: Some(HEAD_LEN), flows: HashSet::new(), begun: 0 };
                Ok(CaptureFile(Arc::new(Shared { path, state: Mutex::new(state) })))
            }
            Err(error) => Err(CaptureError { path, why: error.to_string() }),
        }
    }

    /// The file's name, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether all packets so far could be written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lock().good.is_some()
    }

    /// Takes a connection for one of its ends to write: gives how many there were before. `None` if the other end, in the
    /// same process, writes it already.
    pub(super) fn begin(&self, flow: Flow) -> Option<u32> {
        let mut state = self.lock();
        let number = state.begun;
        if !state.flows.insert(flow) {
            return None;
        }
        state.begun = state.begun.wrapping_add(1);
        Some(number)
    }

    /// The end that wrote a connection is gone.
    pub(super) fn end(&self, flow: &Flow) {
        self.lock().flows.remove(flow);
    }

    /// Appends a packet, unless the file has failed.
    pub(super) fn append(&self, segment: &Segment, payload: &[u8]) {
        let mut state = self.lock();
        let Some(good) = state.good else { return };
        match state.append(segment, payload) {
            Ok(len) => state.good = Some(good.saturating_add(len)),
            Err(error) => {
                state.good = None;
                // A packet of which a part is there would be the last thing in the file; without it the file is whole.
                let _ = state.file.set_len(good);
                warn!(path = %self.0.path.display(), %error, "the capture ends here");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes a packet in one piece, and gives its length.
    fn append(&mut self, segment: &Segment, payload: &[u8]) -> io::Result<u64> {
        let State { file, packet, .. } = self;
        packet.clear();
        packet.resize(RECORD_HEAD, 0);
        segment.write(payload, packet).ok_or(io::ErrorKind::InvalidInput)?;
        let len = u32::try_from(packet.len().saturating_sub(RECORD_HEAD)).map_err(io::Error::other)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Seconds that do not fit begin anew, as they do in every pcap file, in 2106.
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
    // Not truncated yet: it may be somebody else's, which the lock tells.
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    if file.metadata()?.is_file() {
        // Elsewhere a lock would keep others from reading.
        #[cfg(unix)]
        lock(&file)?;
        file.set_len(0)?;
    }
    let mut head = Vec::new();
    head.extend_from_slice(&MAGIC.to_le_bytes());
    head.extend_from_slice(&[2, 0, 4, 0]);
    head.extend_from_slice(&[0; 8]);
    head.extend_from_slice(&MAX_PACKET.to_le_bytes());
    head.extend_from_slice(&RAW_IP.to_le_bytes());
    file.write_all(&head)?;
    Ok(file)
}

#[cfg(unix)]
fn lock(file: &File) -> io::Result<()> {
    use std::fs::TryLockError;
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::Error::other(
            "a capture is being written to it already; %p in a name of the environment's is the process's number",
        )),
        // A file system without locks.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

impl PartialEq for CaptureFile {
    /// Whether they are the same file.
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
    fn a_file_that_fails_ends_the_capture_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        let capture = CaptureFile::create(&path).unwrap();
        capture.append(&segment(), b"one");
        let whole = std::fs::read(&path).unwrap();
        // What a full disk would say, at every write.
        capture.lock().file = File::open(&path).unwrap();
        capture.append(&segment(), b"two");
        assert!(!capture.is_whole());
        capture.append(&segment(), b"three");
        assert_eq!(std::fs::read(&path).unwrap(), whole, "what was there is there");
    }

    #[test]
    fn a_connection_is_written_from_one_of_its_ends() {
        let dir = tempfile::tempdir().unwrap();
        let capture = CaptureFile::create(dir.path().join("a.pcap")).unwrap();
        let flow = (segment().from, segment().to);
        assert_eq!(capture.begin(flow), Some(0));
        assert_eq!(capture.begin(flow), None);
        capture.end(&flow);
        assert_eq!(capture.begin(flow), Some(1), "the port was used again");
    }
}
