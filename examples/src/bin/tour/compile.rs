//! Compiles a document with rpcrdma-xdrgen.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rpcrdma_xdrgen::{Options, Source, Sources, Summary};

pub(crate) struct Compiled {
    lines: usize,
    summary: Summary,
    rust_lines: usize,
    took: Duration,
    /// True if the output equals the generated code in the repository.
    pub(crate) is_fresh: bool,
}

/// Compiles `specs/nfs3.txt` with its binding, as `cargo xtask generate` does.
pub(crate) fn compile_nfs3() -> Result<Compiled> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
    let document = read("specs/nfs3.txt")?;
    let binding = read("specs/nfs3.ddp.toml")?;
    let committed = read("generated/nfs3/src/lib.rs")?;
    let lines = document.lines().count();

    let start = Instant::now();
    let mut sources = Sources::default();
    sources.add(Source::new("specs/nfs3.txt", document));
    sources.add(Source::new("specs/nfs3.ddp.toml", binding));
    let mut options = Options::package("rpcrdma-nfs3", "NFS version 3 (RFC 1813)");
    options.command = "cargo xtask generate".to_owned();
    let generated = rpcrdma_xdrgen::generate(&sources, &options);
    let took = start.elapsed();

    if generated.has_errors() {
        bail!("\n{}", rpcrdma_xdrgen::diag::plain(&generated.diagnostics, &sources));
    }
    let library = generated.files.iter().find(|(path, _)| path.ends_with("lib.rs"));
    let (_, text) = library.context("no library was emitted")?;
    Ok(Compiled {
        lines,
        summary: generated.summary,
        rust_lines: text.lines().count(),
        took,
        is_fresh: *text == committed,
    })
}

impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiled { lines, summary, rust_lines, took, .. } = self;
        writeln!(
            f,
            "   read      specs/nfs3.txt: {lines} lines of text, and its binding specs/nfs3.ddp.toml"
        )?;
        writeln!(
            f,
            "   found     {} definitions: {} types, {} constants, {} program(s) with {} procedures",
            summary.definitions, summary.types, summary.consts, summary.programs, summary.procedures
        )?;
        writeln!(f, "   emitted   {rust_lines} lines of Rust")?;
        writeln!(f, "   took      {took:.1?}")
    }
}
