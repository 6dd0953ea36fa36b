//! What programs say, where whoever reads it may go away at any time: `nfs3 ls URL | head`.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// The exit status of a program whose reader has gone: what shells say of one that SIGPIPE has ended.
pub const CLOSED: u8 = 141;

/// Nobody reads standard output any more. That is no failure to speak of; work that was for the reader ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standard output is closed")]
pub struct Closed;

/// Gives [`Closed`] its name. Anything else stays what it is.
///
/// Only of errors in writing to standard output: a connection can break as a pipe does, and that is a failure.
#[must_use]
pub fn of_standard_output(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Closed.into()
    } else {
        anyhow::Error::new(error).context("standard output")
    }
}

/// Writes to standard output, all of it before this returns.
///
/// # Errors
/// [`Closed`], and what else keeps it from being written.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(of_standard_output)
}

/// Says something on standard error, if anybody listens there. Names from a server are [`escaped`].
pub fn complain(program: &str, what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{program}: {}", escaped(&what.to_string()));
}

/// Escapes what steers a terminal: control characters, line ends, and characters that change the direction of text.
#[must_use]
pub fn escaped(text: &str) -> String {
    let steers = |c: char| {
        let directs = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() || directs || matches!(c, '\u{2028}'..='\u{2029}')
    };
    text.chars().map(|c| if steers(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// The exit status of a program, with what went wrong said in a line; `status` says which one a failure has.
pub fn status(
    program: &str,
    done: anyhow::Result<()>,
    status: impl FnOnce(&anyhow::Error) -> u8,
) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Closed>() => ExitCode::from(CLOSED),
        Err(error) => {
            complain(program, one_line(&error));
            ExitCode::from(status(&error))
        }
    }
}

/// Formats an error and its causes as one line. A cause whose text the line already contains is left out.
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
