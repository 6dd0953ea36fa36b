//! Runs the program `rpcrdma-xdrgen` in a directory.

use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn compiler(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpcrdma-xdrgen"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the program runs")
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}
