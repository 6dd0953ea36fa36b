//! Messages and MPA frames captured between other implementations, in `vectors/` and in the directory that
//! the environment variable `RPCRDMA_VECTORS` names.

use std::path::{Path, PathBuf};
use std::{env, fs};

use bytes::Bytes;

/// A captured message.
#[derive(Clone, Debug)]
pub struct Captured {
    /// True if the client sent the message.
    pub from_client: bool,
    /// The message's name in the file, or its kind if the message has no name.
    pub name: String,
    /// The complete message, starting with the RPC-over-RDMA header.
    pub bytes: Bytes,
}

/// Returns the string value of a key in a line of JSON without nesting or escapes, if the line has the key.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{key}\": \""))?;
    rest.split_once('"').map(|(value, _)| value)
}

fn parse(line: &str) -> Option<Captured> {
    let kind = field(line, "kind")?;
    let hex = field(line, "hex").filter(|_| matches!(kind, "Send" | "Send_Inv"))?;
    Some(Captured {
        from_client: field(line, "dir") == Some("C->S"),
        name: field(line, "name").unwrap_or(kind).to_owned(),
        bytes: octets(hex),
    })
}

/// Decodes pairs of hexadecimal digits.
///
/// # Panics
/// Panics if `hex` contains other characters.
#[must_use]
pub fn octets(hex: &str) -> Bytes {
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    hex.as_bytes().chunks(2).map(octet).collect()
}

/// Returns the messages in the `Send` and `Send_Inv` lines of a `.jsonl` file. Ignores all other lines.
///
/// # Panics
/// Panics if the file cannot be read or contains invalid hexadecimal digits.
#[must_use]
pub fn captured(path: &Path) -> Vec<Captured> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter_map(parse).collect()
}

/// Returns the messages of a file in `vectors/`.
#[must_use]
pub fn ours(name: &str) -> Vec<Captured> {
    captured(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name))
}

/// A captured MPA frame.
#[derive(Clone, Debug)]
pub struct CapturedFrame {
    /// True if the client sent the frame.
    pub from_client: bool,
    /// True for the MPA request and reply, false for an FPDU.
    pub handshake: bool,
    /// True if CRCs are enabled on the connection.
    pub crc: bool,
    /// The frame's name in the file, or its kind if the frame has no name.
    pub name: String,
    /// The complete frame.
    pub bytes: Bytes,
}

/// Returns the MPA frames in the `mpa` and `fpdu` lines of a `.jsonl` file. Ignores all other lines.
///
/// # Panics
/// Panics if the file cannot be read or contains invalid hexadecimal digits.
#[must_use]
pub fn frames(path: &Path) -> Vec<CapturedFrame> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let frame = |line| {
        let kind = field(line, "kind").filter(|kind| matches!(*kind, "mpa" | "fpdu"))?;
        Some(CapturedFrame {
            from_client: field(line, "dir") == Some("C->S"),
            handshake: kind == "mpa",
            crc: field(line, "crc") == Some("on"),
            name: field(line, "name").unwrap_or(kind).to_owned(),
            bytes: octets(field(line, "hex")?),
        })
    };
    text.lines().filter_map(frame).collect()
}

/// Returns the path and the messages of each `.jsonl` file in the directory that `RPCRDMA_VECTORS` names.
/// Returns an empty list if the variable is not set.
///
/// # Panics
/// Panics if the directory cannot be read or contains no `.jsonl` file, or if [`captured`] panics.
#[must_use]
pub fn others() -> Vec<(String, Vec<Captured>)> {
    other_files().into_iter().map(|path| (path.display().to_string(), captured(&path))).collect()
}

/// Returns the `.jsonl` files in the directory that `RPCRDMA_VECTORS` names. Returns an empty list if the
/// variable is not set.
///
/// # Panics
/// Panics if the directory cannot be read or contains no `.jsonl` file.
#[must_use]
pub fn other_files() -> Vec<PathBuf> {
    let Ok(directory) = env::var("RPCRDMA_VECTORS") else {
        not_run::not_run("RPCRDMA_VECTORS is not set: no captured messages");
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    assert!(!files.is_empty(), "{directory} has no `.jsonl` files");
    files
}
