//! Captures (feature `capture`): the octets that each connection sends and receives over TCP. Wireshark,
//! tshark and `rpcrdma explain` read capture files. Capturing needs no privileges and no network interface:
//! the IP and TCP headers are built from the connection's addresses.
//!
//! The capture contains all data of its connections, including file data and credentials. On Unix, a new
//! capture file is readable only by its owner.

mod file;
mod packet;
mod tap;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process;
use std::sync::OnceLock;

pub use file::CaptureFile;
pub(super) use tap::Tap;

/// The environment variable that names a capture file.
pub const CAPTURE_VARIABLE: &str = "RPCRDMA_PCAP";

/// The destination of captured traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// The file named by the environment variable [`CAPTURE_VARIABLE`], or no capture if the variable is
    /// unset or empty. `%p` in the name is replaced by the process ID, since two processes cannot share a
    /// file. In one process, all connections with this setting write to the same file.
    #[default]
    Environment,
    /// No capture.
    Off,
    /// The given file.
    File(CaptureFile),
}

/// Why a capture failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capture {} cannot be written: {why}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// The reason, as text.
    pub why: String,
}

impl Capture {
    /// Returns the capture file, or `None` if nothing is captured. The first call for
    /// [`Capture::Environment`] creates the file that [`CAPTURE_VARIABLE`] names, if any. Listeners call this
    /// method when they are created, and initiators before they connect. A program can call it at startup to
    /// detect errors earlier.
    ///
    /// # Errors
    /// [`CaptureError`] if the file named by [`CAPTURE_VARIABLE`] cannot be created or, on Unix, if another
    /// capture uses the file. Later calls return the same error.
    pub fn file(&self) -> Result<Option<CaptureFile>, CaptureError> {
        static NAMED: OnceLock<Result<Option<CaptureFile>, CaptureError>> = OnceLock::new();
        match self {
            Capture::Environment => NAMED
                .get_or_init(|| match env::var_os(CAPTURE_VARIABLE).filter(|name| !name.is_empty()) {
                    Some(name) => CaptureFile::create(with_process_id(&name)).map(Some),
                    None => Ok(None),
                })
                .clone(),
            Capture::Off => Ok(None),
            Capture::File(file) => Ok(Some(file.clone())),
        }
    }
}

fn with_process_id(name: &OsStr) -> OsString {
    match name.to_str() {
        Some(name) => name.replace("%p", &process::id().to_string()).into(),
        None => name.to_owned(),
    }
}
