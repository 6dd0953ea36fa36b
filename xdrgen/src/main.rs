//! The program `rpcrdma-xdrgen`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rpcrdma_xdrgen::cli::main()
}
