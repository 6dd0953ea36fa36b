//! Reports copied files and progress.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rpcrdma_nfs::client::Digest;
use rpcrdma_nfs::output;
use serde_json::{Value, json};

use crate::show;

/// The progress bars of concurrent copies, one per line of the terminal.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Hides the progress bars while `write` runs, since the bars may be on the same terminal as its output.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    BARS.suspend(|| output::print(write))
}

pub(crate) fn warn(what: impl fmt::Display) {
    BARS.suspend(|| output::warn("nfs3", what));
}

#[derive(Clone, Copy)]
pub(crate) struct Report {
    /// Do not print progress, or the digests and names of copied files.
    pub(crate) quiet: bool,
    /// Print JSON objects, one per line.
    pub(crate) json: bool,
}

impl Report {
    pub(crate) fn copied(self, sum: Digest, name: &str) -> anyhow::Result<()> {
        match self {
            Report { quiet: true, .. } => Ok(()),
            Report { json: true, .. } => self.object(&json!({"sha256": sum.to_string(), "name": name})),
            _ => print(|out| writeln!(out, "{sum}  {}", show::text(name.as_bytes()))),
        }
    }

    pub(crate) fn object(self, object: &Value) -> anyhow::Result<()> {
        print(|out| writeln!(out, "{}", output::escaped_json(&object.to_string())))
    }

    /// The bar is hidden with `quiet`, or if standard error is not a terminal.
    pub(crate) fn progress(self, size: u64, name: &str) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(size).with_style(style).with_message(show::text(name.as_bytes()));
        BARS.add(bar)
    }
}
