//! The command line of `nfs3`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory, Parser, Subcommand};
use sha2::{Digest as _, Sha256};

use crate::client::{Digest, Url};
use crate::output::LogFormat;
use crate::provider::Provider;

/// Uses files of an NFSv3 server over RPC-over-RDMA (iWARP in user space over TCP), or over TCP.
///
/// A URL is rdma://HOST:PORT/PATH or tcp://HOST:PORT/PATH. The default ports are 20049 and 2049. MOUNT is
/// called on the same connection, or at the port that the server's rpcbind returns; ?mountport=PORT at the
/// end of the URL overrides both. ?sec=krb5, krb5i or krb5p uses the Kerberos ticket of this user. In a path,
/// %20 is a space and %3F a question mark.
///
/// Exit status: 0 success; 1 the server or this machine refuses; 2 the command line is wrong; 3 the server
/// cannot be reached; 4 the data is not as expected; 130 interrupted; 141 standard output is closed. RUST_LOG
/// controls the log, for example RUST_LOG=debug.
#[derive(Debug, Parser)]
#[command(name = "nfs3", version)]
pub struct Arguments {
    /// Transport of RPC-over-RDMA: iwarp, verbs (an RDMA device), or auto (a device with a route to the
    /// server, else iwarp); same as ?provider=PROVIDER at the end of a URL
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<Provider>,
    /// Print errors and warnings only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print one JSON object per file or line
    #[arg(long, global = true)]
    pub json: bool,
    /// The format of warnings and of the log on standard error. In JSON, spans of the log are lines when they
    /// end; RUST_LOG=rpcrdma_runtime::calls=debug logs one for each call
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `nfs3`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List a directory, or name a file
    Ls {
        /// Also print kind, mode, link count, owner, group, size and time
        #[arg(short = 'l')]
        long: bool,
        /// With -l, print sizes with units of 1024
        #[arg(short = 'H', long, requires = "long")]
        human: bool,
        /// Directory or file
        url: Url,
    },
    /// Write a file to standard output
    Cat {
        /// Fail unless the file has this SHA-256
        #[arg(long, value_name = "SUM")]
        sha256: Option<Sum>,
        /// File
        url: Url,
    },
    /// Fetch a file and print its SHA-256
    Get {
        /// How to copy
        #[command(flatten)]
        how: How,
        /// File, or with -r a directory
        url: Url,
        /// Local file or directory; the default is the file's own name in the working directory
        to: Option<PathBuf>,
    },
    /// Store a file and print its SHA-256
    Put {
        /// How to copy
        #[command(flatten)]
        how: How,
        /// Read back the stored data, and fail if it differs
        #[arg(long)]
        verify: bool,
        /// Local file, or with -r a directory
        from: PathBuf,
        /// File, or a directory to put it in
        url: Url,
    },
    /// Remove files, and symbolic links but not their targets
    Rm {
        /// Also remove directories with everything below them
        #[arg(short, long)]
        recursive: bool,
        /// Files
        #[arg(required = true)]
        urls: Vec<Url>,
    },
    /// Make directories
    Mkdir {
        /// Also make missing parent directories, and accept directories that exist
        #[arg(short, long)]
        parents: bool,
        /// Directories
        #[arg(required = true)]
        urls: Vec<Url>,
    },
    /// Rename a file or directory within one export
    Mv {
        /// File or directory
        from: Url,
        /// New name, or a directory to move it to. An existing file is replaced
        to: Url,
    },
    /// Copy the changes of a directory to another one, of which one is a URL. Removes nothing
    ///
    /// A file is copied if its size or its time of modification differs. Its time is copied with it.
    Sync {
        /// The selection of files, and the concurrency
        #[command(flatten)]
        tree: Tree,
        /// Compare the content of files of equal size, and not their times
        #[arg(long)]
        checksum: bool,
        /// Directory to copy from
        from: Place,
        /// Directory to copy to; it is made if it does not exist
        to: Place,
    },
    /// Describe the server and the connection to it
    Info {
        /// Any file
        url: Url,
    },
}

impl Command {
    /// Returns every URL of the command line.
    pub fn urls(&mut self) -> Vec<&mut Url> {
        match self {
            Command::Ls { url, .. }
            | Command::Cat { url, .. }
            | Command::Get { url, .. }
            | Command::Put { url, .. }
            | Command::Info { url } => vec![url],
            Command::Rm { urls, .. } | Command::Mkdir { urls, .. } => urls.iter_mut().collect(),
            Command::Mv { from, to } => vec![from, to],
            Command::Sync { from, to, .. } => [from, to].into_iter().filter_map(Place::url).collect(),
        }
    }
}

/// How files are copied.
#[derive(Args, Debug)]
pub struct How {
    /// Continue an interrupted copy. Data that is there already is compared, and copied again where it
    /// differs
    #[arg(long, conflicts_with = "recursive")]
    pub resume: bool,
    /// Copy a directory with everything below it
    #[arg(short, long)]
    pub recursive: bool,
    /// Fail unless the file has this SHA-256
    #[arg(long, value_name = "SUM", conflicts_with = "recursive")]
    pub sha256: Option<Sum>,
    /// The selection of files, and the concurrency
    #[command(flatten)]
    pub tree: Tree,
}

/// The selection of files in a tree, and the concurrency. Patterns have `*`, `?` and `**`; only `**`
/// matches a slash. A pattern with a slash matches the path below the top, any other pattern the name.
#[derive(Args, Clone, Debug)]
pub struct Tree {
    /// Copy so many files at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = transfers)]
    pub transfers: usize,
    /// Copy only files that match a pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Leave out files, and directories with everything below them, that match a pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
}

fn transfers(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| (1..=64).contains(count))
        .ok_or_else(|| "a number from 1 to 64".to_owned())
}

impl Tree {
    /// Returns true if a file or directory with this path below the top is copied.
    #[must_use]
    pub fn selects(&self, path: &[u8], is_directory: bool) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_match =
            |pattern: &String| matches(pattern.as_bytes(), if pattern.contains('/') { path } else { name });
        let included = is_directory || self.include.is_empty() || self.include.iter().any(is_match);
        included && !self.exclude.iter().any(is_match)
    }
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => {
            let (crosses, rest) = rest.strip_prefix(b"*").map_or((false, rest), |rest| (true, rest));
            let end = text.iter().position(|byte| *byte == b'/' && !crosses).unwrap_or(text.len());
            (0..=end).any(|at| matches(rest, text.get(at..).unwrap_or_default()))
        }
        [b'?', rest @ ..] => {
            text.split_first().is_some_and(|(at, after)| *at != b'/' && matches(rest, after))
        }
        [byte, rest @ ..] => text.strip_prefix(&[*byte]).is_some_and(|after| matches(rest, after)),
    }
}

/// A directory of this machine or of a server.
#[derive(Clone, Debug)]
pub enum Place {
    /// On this machine.
    Here(PathBuf),
    /// On a server.
    There(Url),
}

impl Place {
    fn url(&mut self) -> Option<&mut Url> {
        match self {
            Place::Here(_) => None,
            Place::There(url) => Some(url),
        }
    }
}

impl FromStr for Place {
    type Err = crate::client::UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains("://") { text.parse().map(Place::There) } else { Ok(Place::Here(text.into())) }
    }
}

/// A SHA-256 sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum([u8; 32]);

impl FromStr for Sum {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a SHA-256 has 64 hexadecimal digits";
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
        }
        Ok(Sum(bytes))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl From<Sha256> for Sum {
    fn from(sum: Sha256) -> Self {
        Sum(sum.finalize().into())
    }
}

impl From<Digest> for Sum {
    fn from(Digest(sum): Digest) -> Self {
        Sum(sum)
    }
}

/// Returns the definition of the command line, for man pages and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_names_and_paths() {
        let tree = |include: &[&str], exclude: &[&str]| {
            let owned = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
            Tree { transfers: 1, include: owned(include), exclude: owned(exclude) }
        };
        let c_files = tree(&["*.c", "doc/**/*.md"], &["tmp*", "a/b?/x.c"]);
        for path in ["x.c", "a/x.c", "doc/a/b.md", "a/b/x.c"] {
            assert!(c_files.selects(path.as_bytes(), false), "{path}");
        }
        for path in ["x.h", "x.c.h", "b.md", "a/tmp1.c", "a/b1/x.c", "doc/b.md.txt"] {
            assert!(!c_files.selects(path.as_bytes(), false), "{path}");
        }
        assert!(c_files.selects(b"a", true) && !c_files.selects(b"a/tmp", true));
        assert!(tree(&[], &[]).selects(b"x", false));
    }

    #[test]
    fn a_sum_has_64_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(text.to_uppercase().parse::<Sum>().unwrap().to_string(), text);
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert!(wrong.parse::<Sum>().is_err(), "{wrong}");
        }
    }
}
