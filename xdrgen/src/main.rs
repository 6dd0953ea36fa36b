//! The program `xdrgen`.

use std::process::ExitCode;

fn main() -> ExitCode {
    xdrgen::cli::main()
}
