//! Output of the server: messages on standard output, warnings and the log on standard error.

use std::fmt::Display;
use std::process::ExitCode;

use rpcrdma_nfs::cli::nfs3d::LogFormat;
use rpcrdma_nfs::output::{self, Closed, one_line};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The server's output. `RUST_LOG` configures the log.
#[derive(Clone, Copy)]
pub(crate) struct Log(LogFormat);

impl Log {
    pub(crate) fn start(format: LogFormat) -> Self {
        // In JSON, warnings are log events.
        let level = if format == LogFormat::Json { LevelFilter::WARN } else { LevelFilter::ERROR };
        let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .log_internal_errors(false);
        match format {
            LogFormat::Text => subscriber.init(),
            LogFormat::Json => subscriber.json().init(),
        }
        Log(format)
    }

    /// Prints a line on standard output. The server continues if standard output is closed.
    pub(crate) fn print(self, what: impl Display) {
        match output::print(|out| writeln!(out, "{what}")) {
            Err(error) if !error.is::<Closed>() => self.warn(one_line(&error)),
            _ => {}
        }
    }

    pub(crate) fn warn(self, what: impl Display) {
        match self.0 {
            LogFormat::Text => output::warn("nfs3d", what),
            LogFormat::Json => tracing::warn!("{what}"),
        }
    }

    /// Prints the error, if any, and returns the exit status.
    pub(crate) fn status(self, ended: anyhow::Result<()>) -> ExitCode {
        match (self.0, ended) {
            (LogFormat::Json, Err(error)) => {
                tracing::error!("{}", one_line(&error));
                ExitCode::FAILURE
            }
            (_, ended) => output::status("nfs3d", ended, |_| 1),
        }
    }
}
