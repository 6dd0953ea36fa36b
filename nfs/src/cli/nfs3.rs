//! The command line of `nfs3`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::client::{Digest, Url};
use crate::output::LogFormat;
use crate::provider::Provider;

/// Accesses files on an NFSv3 server over RPC-over-RDMA (by default, iWARP in user space), or over TCP.
///
/// A URL is rdma://HOST:PORT/PATH or tcp://HOST:PORT/PATH. The default port is 20049 for rdma and 2049 for
/// tcp. nfs3 calls MOUNT on the NFS connection if the server offers MOUNT there, else on the port that the
/// server's rpcbind returns. ?mountport=PORT at the end of the URL overrides both. ?sec=krb5, ?sec=krb5i and
/// ?sec=krb5p use your Kerberos ticket. In a path, %20 is a space and %3F is a question mark.
///
/// Exit status: 0 success; 1 server or local error; 2 invalid command line; 3 server unreachable; 4 data
/// mismatch; 130 interrupted; 141 standard output closed. RUST_LOG controls the log, for example
/// RUST_LOG=debug.
#[derive(Debug, Parser)]
#[command(name = "nfs3", version)]
#[non_exhaustive]
pub struct Nfs3Arguments {
    /// Provider for RPC-over-RDMA: iwarp, verbs (an RDMA device), or auto (a device with a route to the
    /// server, else iwarp). Overrides ?provider=PROVIDER at the end of a URL
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<Provider>,
    /// Do not print progress, or the digests and names of copied files
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print JSON objects, one per line
    #[arg(long, global = true)]
    pub json: bool,
    /// The format of warnings, errors and the log on standard error. In JSON, each span is logged when it
    /// ends; RUST_LOG=rpcrdma_runtime::calls=debug logs one span per call
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// The command.
    #[command(subcommand)]
    pub command: Nfs3Command,
}

/// The commands of `nfs3`.
#[derive(Debug, Subcommand)]
pub enum Nfs3Command {
    /// List a directory or a file
    Ls {
        /// Also print type, mode, link count, owner, group, size and time
        #[arg(short = 'l')]
        long: bool,
        /// With -l, print sizes with a unit, such as KiB or MiB
        #[arg(short = 'H', long, requires = "long")]
        human: bool,
        /// Directory or file
        url: Url,
    },
    /// Write a file to standard output
    Cat {
        /// Fail unless the file has this SHA-256 digest
        #[arg(long, value_name = "SUM")]
        sha256: Option<Digest>,
        /// File
        url: Url,
    },
    /// Fetch a file and print its SHA-256 digest
    Get {
        /// The options for copying
        #[command(flatten)]
        how: CopyOptions,
        /// File or, with -r, directory
        url: Url,
        /// Local file or directory; the default is the file's name in the working directory
        to: Option<PathBuf>,
    },
    /// Store a file and print its SHA-256 digest
    Put {
        /// The options for copying
        #[command(flatten)]
        how: CopyOptions,
        /// Read the stored data back, and fail if it differs
        #[arg(long)]
        verify: bool,
        /// Local file or, with -r, directory
        from: PathBuf,
        /// Target file, or directory in which to store the file
        url: Url,
    },
    /// Remove files and symbolic links, but not the targets of links
    Rm {
        /// Also remove directories with everything below them
        #[arg(short, long)]
        recursive: bool,
        /// Files and symbolic links or, with -r, also directories
        #[arg(required = true)]
        urls: Vec<Url>,
    },
    /// Create directories
    Mkdir {
        /// Also create missing parent directories, and accept existing directories
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
        /// New name, or a directory to move the file to. An existing file is replaced
        to: Url,
    },
    /// Copy changed files between a local directory and a directory on a server, without deleting any
    ///
    /// A file is copied if its size or modification time differs. The modification time is also copied. A
    /// symbolic link whose target differs is replaced, but its name is not printed. If the destination has a
    /// file or a directory with the name of a link, the sync fails.
    Sync {
        /// The selection of files and the number of concurrent copies
        #[command(flatten)]
        tree: TreeOptions,
        /// Compare files of equal size by content instead of modification time
        #[arg(long)]
        checksum: bool,
        /// Directory to copy from
        from: Location,
        /// Directory to copy to; created if it does not exist
        to: Location,
    },
    /// Describe the server and the connection to it
    Info {
        /// Any file or directory on the server
        url: Url,
    },
}

impl Nfs3Command {
    /// Returns every URL on the command line.
    pub fn urls(&mut self) -> Vec<&mut Url> {
        match self {
            Nfs3Command::Ls { url, .. }
            | Nfs3Command::Cat { url, .. }
            | Nfs3Command::Get { url, .. }
            | Nfs3Command::Put { url, .. }
            | Nfs3Command::Info { url } => vec![url],
            Nfs3Command::Rm { urls, .. } | Nfs3Command::Mkdir { urls, .. } => urls.iter_mut().collect(),
            Nfs3Command::Mv { from, to } => vec![from, to],
            Nfs3Command::Sync { from, to, .. } => [from, to].into_iter().filter_map(Location::url).collect(),
        }
    }
}

/// The options of `nfs3 get` and `nfs3 put` for copying files.
#[derive(Args, Debug)]
#[command(
    mut_arg("transfers", |transfers| transfers.requires("recursive")),
    mut_arg("include", |include| include.requires("recursive")),
    mut_arg("exclude", |exclude| exclude.requires("recursive")),
)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Resume an interrupted copy. Existing data is verified, and is copied again if it differs
    #[arg(long, conflicts_with = "recursive")]
    pub resume: bool,
    /// Copy a directory with everything below it
    #[arg(short, long)]
    pub recursive: bool,
    /// Fail unless the file has this SHA-256 digest
    #[arg(long, value_name = "SUM", conflicts_with = "recursive")]
    pub sha256: Option<Digest>,
    /// The selection of files and the number of concurrent copies
    #[command(flatten)]
    pub tree: TreeOptions,
}

/// The options for copying trees: the selected files and the number of concurrent copies. Patterns may
/// contain `*`, `?` and `**`, of which only `**` matches a slash. At the start of a pattern or after a slash,
/// `**/` can also match the empty string. A pattern that ends with a slash matches only directories. A
/// pattern with a slash before its last character is matched against the path relative to the copied
/// directory. Any other pattern is matched against the name of the file or directory.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct TreeOptions {
    /// Maximum number of concurrent copies
    #[arg(long, value_name = "N", default_value = "1", value_parser = transfers)]
    pub transfers: usize,
    /// Copy only files that match a pattern; may be repeated. Does not apply to directories
    #[arg(long, value_name = "PATTERN", value_parser = file_pattern)]
    pub include: Vec<String>,
    /// Skip files and directories that match a pattern, with everything below them; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub exclude: Vec<String>,
}

fn transfers(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| (1..=64).contains(count))
        .ok_or_else(|| "expected a number from 1 to 64".to_owned())
}

fn pattern(text: &str) -> Result<String, String> {
    match text.trim_matches('/') {
        "" => Err("empty pattern".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Parses a pattern of `--include`. Rejects a pattern that matches only directories.
fn file_pattern(text: &str) -> Result<String, String> {
    match pattern(text)?.strip_suffix('/') {
        Some(path) if path.contains('/') => Err(format!("matches only directories; use `{path}/**`")),
        Some(name) => Err(format!("matches only directories; use `**/{name}/**`")),
        None => Ok(text.to_owned()),
    }
}

impl TreeOptions {
    /// Returns true if the file or directory at `path`, relative to the copied directory, is selected.
    #[must_use]
    pub fn selects(&self, path: &[u8], is_directory: bool) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_match = |pattern: &String| {
            let (pattern, may_match) = match pattern.strip_suffix('/') {
                Some(pattern) => (pattern, is_directory),
                None => (pattern.as_str(), true),
            };
            let text = if pattern.contains('/') { path } else { name };
            may_match && matches(pattern.strip_prefix('/').unwrap_or(pattern).as_bytes(), text, true)
        };
        let included = is_directory || self.include.is_empty() || self.include.iter().any(is_match);
        included && !self.exclude.iter().any(is_match)
    }
}

/// Returns true if `pattern` matches the whole `text`. `is_start` is true if both begin at the start of
/// a path component.
fn matches(pattern: &[u8], text: &[u8], is_start: bool) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', b'/', rest @ ..] if is_start && matches(rest, text, true) => true,
        [b'*', rest @ ..] => {
            let (crosses, rest) = rest.strip_prefix(b"*").map_or((false, rest), |rest| (true, rest));
            let end = text.iter().position(|byte| *byte == b'/' && !crosses).unwrap_or(text.len());
            (0..=end).any(|at| matches(rest, text.get(at..).unwrap_or_default(), false))
        }
        [b'?', rest @ ..] => {
            text.split_first().is_some_and(|(at, after)| *at != b'/' && matches(rest, after, false))
        }
        [byte, rest @ ..] => {
            text.strip_prefix(&[*byte]).is_some_and(|after| matches(rest, after, *byte == b'/'))
        }
    }
}

/// The location of a directory.
#[derive(Clone, Debug)]
pub enum Location {
    /// A directory on this machine.
    Local(PathBuf),
    /// A directory on a server.
    Server(Url),
}

impl Location {
    fn url(&mut self) -> Option<&mut Url> {
        match self {
            Location::Local(_) => None,
            Location::Server(url) => Some(url),
        }
    }
}

impl FromStr for Location {
    type Err = crate::client::UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains("://") {
            text.parse().map(Location::Server)
        } else {
            Ok(Location::Local(text.into()))
        }
    }
}

/// Returns the definition of the command line, for man pages and shell completions.
#[must_use]
pub fn command() -> clap::Command {
    Nfs3Arguments::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_names_and_paths() {
        let tree = |include: &[&str], exclude: &[&str]| {
            let owned = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
            TreeOptions { transfers: 1, include: owned(include), exclude: owned(exclude) }
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
        let markdown = tree(&["**/*.md"], &["tmp/", "/top", "a/b/"]);
        for path in ["x.md", "a/x.md", "a/b/x.md", "sub/top.md"] {
            assert!(markdown.selects(path.as_bytes(), false), "{path}");
        }
        for directory in ["tmp", "sub/tmp", "top", "a/b"] {
            assert!(!markdown.selects(directory.as_bytes(), true), "{directory}");
        }
        for directory in ["tmps", "sub/top", "sub/a/b"] {
            assert!(markdown.selects(directory.as_bytes(), true), "{directory}");
        }
        assert!(tree(&[], &["tmp/"]).selects(b"tmp", false), "a file with the name of an excluded directory");
        for path in ["docx.md", "a/docx.md", "ab.c"] {
            assert!(!tree(&["doc**/*.md", "a**/b.c"], &[]).selects(path.as_bytes(), false), "{path}");
        }
        for (pattern, better) in [("sub/", "`**/sub/**`"), ("a/sub/", "`a/sub/**`")] {
            let refused = file_pattern(pattern).unwrap_err();
            assert_eq!(refused, format!("matches only directories; use {better}"));
            assert!(tree(&[better.trim_matches('`')], &[]).selects(b"a/sub/deep/x", false));
        }
        assert!(pattern("").is_err() && pattern("/").is_err() && file_pattern("").is_err());
        assert_eq!(file_pattern("/").unwrap_err(), "empty pattern");
    }

    #[test]
    fn a_digest_has_64_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(text.to_uppercase().parse::<Digest>().unwrap().to_string(), text);
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
