//! Captures, with the feature `capture`: the octets of each connection as TCP accepted or delivered them, in a file that
//! Wireshark, tshark and `rpcrdma explain` read. Capturing needs no privileges and no interface: the IP and TCP headers
//! are made from the addresses.
//!
//! The file contains everything that its connections carry, including file data and credentials. Only its owner can
//! read a new file.

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

/// The environment variable that names a capture.
pub const CAPTURE_VARIABLE: &str = "RPCRDMA_PCAP";

/// Where the traffic of connections is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// To the file that the environment variable [`CAPTURE_VARIABLE`] names; nowhere if it is not set, or empty. `%p` in
    /// the name stands for the number of the process, as two processes cannot share a file. All connections of the
    /// process do.
    #[default]
    Environment,
    /// Nowhere.
    Off,
    /// To this file.
    File(CaptureFile),
}

/// Why there is no capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the capture {} cannot be written: {why}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// Why, in words.
    pub why: String,
}

impl Capture {
    /// The file, if there is one; the one of the environment is begun with the first to ask. Whoever listens or connects
    /// asks, so to do it before is only to know early.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn file(&self) -> Result<Option<CaptureFile>, CaptureError> {
        static NAMED: OnceLock<Result<Option<CaptureFile>, CaptureError>> = OnceLock::new();
        match self {
            Capture::Environment => NAMED
                .get_or_init(|| match env::var_os(CAPTURE_VARIABLE).filter(|name| !name.is_empty()) {
                    Some(name) => CaptureFile::create(numbered(&name)).map(Some),
                    None => Ok(None),
                })
                .clone(),
            Capture::Off => Ok(None),
            Capture::File(file) => Ok(Some(file.clone())),
        }
    }
}

/// The name with the process's number in place of `%p`. A name that is no Unicode stays as it is.
fn numbered(name: &OsStr) -> OsString {
    match name.to_str() {
        Some(name) => name.replace("%p", &process::id().to_string()).into(),
        None => name.to_owned(),
    }
}
