//! Output about copied files and progress.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};
use rpcrdma_nfs::client::Digest;
use rpcrdma_nfs::output;
use serde_json::{Value, json};

use crate::show;

/// The output options.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    /// Only errors and warnings.
    pub(crate) quiet: bool,
    /// One JSON object per file or line.
    pub(crate) json: bool,
}

impl Report {
    /// Prints a copied file.
    pub(crate) fn copied(self, sum: Digest, name: &str) -> anyhow::Result<()> {
        match self {
            Report { quiet: true, .. } => Ok(()),
            Report { json: true, .. } => self.object(&json!({"sha256": sum.to_string(), "name": name})),
            _ => output::print(|out| writeln!(out, "{sum}  {}", show::text(name.as_bytes()))),
        }
    }

    /// Prints an object on its own line.
    pub(crate) fn object(self, object: &Value) -> anyhow::Result<()> {
        if self.quiet { Ok(()) } else { output::print(|out| writeln!(out, "{object}")) }
    }

    /// Returns a progress bar, which is drawn only if standard error is a terminal.
    pub(crate) fn progress(self, size: u64, name: &str) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(size).with_style(style).with_message(show::text(name.as_bytes()))
    }
}
