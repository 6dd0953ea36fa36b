//! Messages captured between other implementations: `vectors/`, and the directory in an environment
//! variable.

use std::path::{Path, PathBuf};
use std::{env, fs};

use bytes::Bytes;

/// One message.
#[derive(Clone, Debug)]
pub struct Captured {
    /// From the client to the server.
    pub from_client: bool,
    /// What it is.
    pub name: String,
    /// The whole of it, RPC-over-RDMA header first.
    pub bytes: Bytes,
}

/// The value of a key in a line of JSON that has neither nesting nor escapes.
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

/// Bytes from pairs of hexadecimal digits.
///
/// # Panics
/// Fails for any other value.
#[must_use]
pub fn octets(hex: &str) -> Bytes {
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    hex.as_bytes().chunks(2).map(octet).collect()
}

/// The messages of a file.
///
/// # Panics
/// Fails if it cannot be read.
#[must_use]
pub fn captured(path: &Path) -> Vec<Captured> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter_map(parse).collect()
}

/// The messages of a file of this project.
#[must_use]
pub fn ours(name: &str) -> Vec<Captured> {
    captured(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name))
}

/// A frame of MPA.
#[derive(Clone, Debug)]
pub struct CapturedFrame {
    /// From the client to the server.
    pub from_client: bool,
    /// The MPA request or reply, and no FPDU.
    pub opening: bool,
    /// Whether the peers agreed on CRCs.
    pub crc: bool,
    /// What it is.
    pub name: String,
    /// All of it.
    pub bytes: Bytes,
}

/// The frames of MPA in a file.
///
/// # Panics
/// Fails if it cannot be read.
#[must_use]
pub fn frames(path: &Path) -> Vec<CapturedFrame> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let frame = |line| {
        let kind = field(line, "kind").filter(|kind| matches!(*kind, "mpa" | "fpdu"))?;
        Some(CapturedFrame {
            from_client: field(line, "dir") == Some("C->S"),
            opening: kind == "mpa",
            crc: field(line, "crc") == Some("on"),
            name: field(line, "name").unwrap_or(kind).to_owned(),
            bytes: octets(field(line, "hex")?),
        })
    };
    text.lines().filter_map(frame).collect()
}

/// The messages of each `.jsonl` file in the folder that `RPCRDMA_VECTORS` names; none where it names none.
///
/// # Panics
/// Fails if it contains no such file.
#[must_use]
pub fn others() -> Vec<(String, Vec<Captured>)> {
    other_files().into_iter().map(|path| (path.display().to_string(), captured(&path))).collect()
}

/// The `.jsonl` files in that folder.
///
/// # Panics
/// Fails if it contains none.
#[must_use]
pub fn other_files() -> Vec<PathBuf> {
    let Ok(folder) = env::var("RPCRDMA_VECTORS") else {
        not_run::not_run("RPCRDMA_VECTORS is not set: no captured messages");
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    assert!(!files.is_empty(), "{folder} has no captures");
    files
}
