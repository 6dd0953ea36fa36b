//! The output of the programs, and the log on standard error. Standard output may be closed early, as in
//! `nfs3 ls URL | head`.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
pub use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// The exit status if standard output was closed. A shell reports this status for a process terminated by
/// SIGPIPE.
pub const CLOSED: u8 = 141;

/// Maximum time for the runtime's threads to stop before a program exits. libkrb5 destroys its locks at exit,
/// and aborts the process if another thread uses them.
pub const SHUTDOWN: Duration = Duration::from_millis(500);

/// Standard output was closed. A program that fails with this error exits without an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standard output is closed")]
pub struct Closed;

/// Converts a broken pipe into [`Closed`]. Adds the context `standard output` to any other error.
///
/// Call this function only for errors of standard output: a broken network connection is a different failure.
#[must_use]
pub fn of_standard_output(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Closed.into()
    } else {
        anyhow::Error::new(error).context("standard output")
    }
}

/// Writes to standard output and flushes it.
///
/// # Errors
/// [`Closed`], or any other write error.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(of_standard_output)
}

/// The format of warnings, errors and the log on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object per line. A span, such as a call, is logged when it ends.
    Json,
}

/// True if the program writes its messages, warnings and errors as JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// Starts the log of the program. `RUST_LOG` sets the filter. By default, the log contains events of `level`
/// and more severe events; in JSON, it contains at least all warnings and errors. With [`LogFormat::Json`],
/// the log also contains the program's own messages, warnings and errors.
///
/// # Panics
/// Panics if the process already has a log.
pub fn start_log(format: LogFormat, level: LevelFilter) {
    let is_json = format == LogFormat::Json;
    let level = if is_json { level.max(LevelFilter::WARN) } else { level };
    let mut filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    // `RUST_LOG` does not hide messages of the program.
    if let Ok(own) = concat!(module_path!(), "=info").parse() {
        filter = filter.add_directive(own);
    }
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    let is_colored =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let subscriber = subscriber.with_ansi(is_colored);
    if is_json {
        subscriber.json().with_span_events(FmtSpan::CLOSE).init();
    } else {
        subscriber.init();
    }
    JSON.store(is_json, Ordering::Relaxed);
}

/// Writes an [`escaped`] warning to standard error and ignores failures.
pub fn warn(program: &str, what: impl fmt::Display) {
    log(program, what, |what| tracing::warn!("{what}"));
}

/// Writes an [`escaped`] message to standard error and ignores failures.
pub fn inform(program: &str, what: impl fmt::Display) {
    log(program, what, |what| tracing::info!("{what}"));
}

fn log(program: &str, what: impl fmt::Display, event: impl FnOnce(&str)) {
    let what = escaped(&what.to_string());
    if JSON.load(Ordering::Relaxed) {
        event(&what);
    } else {
        let _ = writeln!(io::stderr(), "{program}: {what}");
    }
}

fn is_steering(c: char) -> bool {
    let directs =
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || directs || matches!(c, '\u{2028}'..='\u{2029}')
}

/// Escapes control characters, line breaks, and characters that change the text direction.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| if is_steering(c) { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Escapes the same characters as [`escaped`] in a line of JSON, as `\uXXXX`. The JSON value stays the
/// same, since such characters occur only in strings.
#[must_use]
pub fn escaped_json(line: &str) -> String {
    line.chars()
        .map(|c| if is_steering(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() })
        .collect()
}

/// Prints the error, if any, as one line and returns the exit status. `status` maps an error to its status.
/// For [`Closed`], prints nothing and returns [`CLOSED`].
pub fn status(
    program: &str,
    done: anyhow::Result<()>,
    status: impl FnOnce(&anyhow::Error) -> u8,
) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Closed>() => ExitCode::from(CLOSED),
        Err(error) => {
            if JSON.load(Ordering::Relaxed) {
                tracing::error!("{}", escaped(&one_line(&error)));
            } else {
                warn(program, one_line(&error));
            }
            ExitCode::from(status(&error))
        }
    }
}

/// Formats an error and its causes as one line. Skips a cause whose text the line already contains.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |line, cause| {
        if line.contains(&cause) {
            line
        } else if line.is_empty() {
            cause
        } else {
            line + ": " + &cause
        }
    })
}
