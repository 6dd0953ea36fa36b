//! Compiles protocol documents and prints the generated Rust:
//! `cargo run -p rpcrdma-examples --bin compile specs/rpc.txt`.
//!
//! Several documents are compiled together; a `.ddp.toml` file is a binding. Most users call the compiler
//! from `build.rs` instead.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use rpcrdma_xdrgen::{Options, Source, Sources, diag};

fn main() -> anyhow::Result<ExitCode> {
    let mut sources = Sources::default();
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        sources.add(Source::new(path, text));
    }
    anyhow::ensure!(sources.iter().next().is_some(), "usage: compile DOCUMENT...");

    let generated = rpcrdma_xdrgen::generate(&sources, &Options::module("protocol"));
    write!(std::io::stderr(), "{}", diag::plain(&generated.diagnostics, &sources))?;
    if generated.has_errors() {
        return Ok(ExitCode::FAILURE);
    }
    for (path, text) in &generated.files {
        writeln!(std::io::stdout(), "// {}\n{text}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
