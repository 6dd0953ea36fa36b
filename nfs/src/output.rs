//! Output of programs. Standard output may be closed early, as in `nfs3 ls URL | head`.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// The exit status if standard output was closed: that of a process terminated by SIGPIPE.
pub const CLOSED: u8 = 141;

/// Standard output was closed. The program exits without an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standard output is closed")]
pub struct Closed;

/// Converts a broken pipe into [`Closed`]. Any other error stays unchanged.
///
/// Use this only for errors of standard output. A broken network connection is a different failure.
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
/// [`Closed`], and any other error of writing.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(of_standard_output)
}

/// Writes an [`escaped`] message to standard error and ignores failures.
pub fn warn(program: &str, what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{program}: {}", escaped(&what.to_string()));
}

/// Escapes control characters, line breaks, and characters that change the text direction.
#[must_use]
pub fn escaped(text: &str) -> String {
    let steers = |c: char| {
        let directs = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() || directs || matches!(c, '\u{2028}'..='\u{2029}')
    };
    text.chars().map(|c| if steers(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Prints the error, if any, as one line and returns the exit status. `status` maps an error to a status.
pub fn status(
    program: &str,
    done: anyhow::Result<()>,
    status: impl FnOnce(&anyhow::Error) -> u8,
) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Closed>() => ExitCode::from(CLOSED),
        Err(error) => {
            warn(program, one_line(&error));
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
