//! Records which tests and steps did not run, and why. `cargo xtask ci` collects the records and lists them
//! at the end.
//!
//! libtest cannot skip a test at run time, and it hides the output of tests that pass. Records are therefore
//! appended to the file that the environment variable [`FILE`] names. If the variable is not set or the file
//! cannot be written, records are written directly to standard error, which libtest does not capture.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::{env, thread};

/// The name of the environment variable that contains the path of the file for the records.
pub const FILE: &str = "RPCRDMA_NOT_RUN";

/// Records that the current test, or a part of it, did not run.
///
/// If an environment variable is the reason, `why` starts with its name.
pub fn not_run(why: impl Display) {
    record(&current_test(), why);
}

/// Records that `what` did not run.
pub fn record(what: &str, why: impl Display) {
    let line = line(what, &why.to_string());
    let file =
        env::var_os(FILE).and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok());
    // Write each line with one call, because several processes append to the file concurrently.
    let written = file.is_some_and(|mut file| file.write_all(format!("{line}\n").as_bytes()).is_ok());
    if !written {
        let _ = writeln!(io::stderr(), "not run: {}", line.replacen('\t', ": ", 1));
    }
}

/// Returns a record on one line: the test or step, a tab, and the reason.
fn line(what: &str, why: &str) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}\t{}", words(what), words(why))
}

/// Returns the name of the test binary, and the name of the current test if known. libtest names each thread
/// after its test, except when it runs tests on a single thread.
fn current_test() -> String {
    let binary = env::current_exe().ok();
    let binary = binary.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    let binary = binary.unwrap_or_default();
    // Cargo appends a hash to the name.
    let binary = binary.rsplit_once('-').map_or(binary.as_str(), |(name, _)| name);
    match thread::current().name() {
        Some(test) if test != "main" => format!("{binary}::{test}"),
        _ => binary.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_with_one_tab() {
        assert_eq!(line("tests::a", "no\tQEMU:\n  not found"), "tests::a\tno QEMU: not found");
    }

    #[test]
    fn a_record_names_the_binary_and_the_test() {
        let named = thread::Builder::new().name("a::test".to_owned()).spawn(current_test).expect("a thread");
        assert_eq!(named.join().expect("a name"), "not_run::a::test");
    }
}
