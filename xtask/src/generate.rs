//! `cargo xtask generate`: writes or compares the compiler's output for `specs/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, Output, Package, diag};

/// The command that updates outdated files.
pub const COMMAND: &str = "cargo xtask generate";

/// The directory of the runtime's own formats.
const WIRE: &str = "rpcrdma-runtime/src/wire/generated";

/// Options of `cargo xtask generate`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Compare instead of writing, and fail if a file differs
    #[arg(long)]
    check: bool,
}

/// One run of the compiler.
struct Run {
    /// The documents and bindings, in `specs/`.
    sources: &'static [&'static str],
    /// The directory of its files.
    directory: &'static str,
    options: fn() -> Options,
}

/// All generated files, except the list of the runtime's modules.
const RUNS: &[Run] = &[
    Run { sources: &["rpc.txt"], directory: WIRE, options: || wire("rpc_msg") },
    Run { sources: &["rpcsec_gss.txt"], directory: WIRE, options: || wire("rpcsec_gss") },
    Run { sources: &["rpcrdma1.txt"], directory: WIRE, options: || wire("rpcrdma1") },
    Run {
        sources: &["nfs3.txt", "nfs3.ddp.toml"],
        directory: "generated/nfs3",
        options: || Options::member("rpcrdma-nfs3", "NFS version 3 (RFC 1813)"),
    },
    Run {
        sources: &["mount3.txt", "mount3.ddp.toml"],
        directory: "generated/mount3",
        options: || Options::member("rpcrdma-mount3", "MOUNT version 3 (RFC 1813)"),
    },
    Run {
        sources: &["rpcbind.txt", "rpcbind.ddp.toml"],
        directory: "generated/rpcbind",
        options: || Options::member("rpcrdma-rpcbind", "rpcbind versions 2 to 4 (RFC 1833)"),
    },
    Run {
        sources: &["rdma-conf.txt", "rdma-conf.ddp.toml"],
        directory: "generated/rdma-conf",
        options: || {
            Options::member(
                "rpcrdma-conf",
                "The connection configuration protocol of RPC over RDMA (RFC 5666)",
            )
        },
    },
    // A protocol and a document that extends it: the output has both.
    Run {
        sources: &["rpcrdma1.txt", "rpcrdma1-keepalive.txt"],
        directory: "generated/keepalive",
        options: || {
            Options::member("rpcrdma-keepalive", "RPC-over-RDMA version 1 with keepalives, an extension")
        },
    },
];

/// A module of the runtime itself.
fn wire(name: &str) -> Options {
    let mut options = Options::no_std_module(name);
    options.runtime = "crate".to_owned();
    options
}

/// The list of the runtime's generated modules.
const WIRE_MODULES: &str = "\
//! What rpcrdma-xdrgen emits from `specs/`. Do not edit: regenerate with `cargo xtask generate`.

/// From `specs/rpc.txt`: ONC RPC messages (RFC 5531).
#[rustfmt::skip]
pub mod rpc_msg;

/// From `specs/rpcrdma1.txt`: the header of RPC-over-RDMA version 1 (RFC 8166 section 4).
#[rustfmt::skip]
pub mod rpcrdma1;

/// From `specs/rpcsec_gss.txt`: the credential and the bodies of RPCSEC_GSS (RFC 2203).
#[rustfmt::skip]
pub mod rpcsec_gss;
";

/// The directory of the documents.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The README of a generated crate.
const README: &str = "\
# @NAME@

@TITLE@: types, clients and handlers for [rpcrdma-runtime](https://docs.rs/rpcrdma-runtime). The compiler
[rpcrdma-xdrgen](https://docs.rs/rpcrdma-xdrgen) generates this crate from:

@SOURCES@
```toml
[dependencies]
@NAME@ = \"@VERSION@\"
rpcrdma-runtime = \"@VERSION@\"
```

The crate is `no_std` with `alloc`. `Client` and `Server` come with the default features of `rpcrdma-runtime`.

The [guide](@REPOSITORY@#readme) has complete examples. License: MIT or Apache-2.0.
";

/// The build script: `@FILES@` are paths and sums.
const GUARD: &str = r#"//! Fails the build when a generated file is not as it was generated. Made by `@COMMAND@`.
#![allow(clippy::print_stdout)] // how a build script speaks to cargo

use std::path::Path;
use std::{env, fs};

/// The generated files, and the FNV-1a sum of each.
#[rustfmt::skip]
const FILES: &[(&str, u64)] = &[
@FILES@];

fn main() {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    for (name, expected) in FILES {
        println!("cargo::rerun-if-changed={name}");
        let text = fs::read(Path::new(&package).join(name)).unwrap_or_default();
        let bytes = text.iter().filter(|byte| **byte != b'\r');
        let sum = bytes.fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if sum != *expected {
            println!("cargo::error={name} is not as it was generated: run `@COMMAND@`");
        }
    }
}
"#;

/// Writes generated files into the workspace at `root`, or compares them.
///
/// # Errors
/// The compiler's findings about `specs/`, or each outdated file with the command that updates it.
pub fn run(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.check { check(root) } else { write(root) }
}

/// The files that are generated from the `specs/` of the workspace at `root`: their paths below it, and their
/// text.
///
/// # Errors
/// The compiler's findings about `specs/`.
pub fn files(root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let mut files = vec![(Path::new(WIRE).with_extension("rs"), WIRE_MODULES.to_owned())];
    for run in RUNS {
        let mut sources = Sources::default();
        for name in run.sources {
            let name = format!("specs/{name}");
            let text = fs::read_to_string(root.join(&name)).map_err(|error| format!("{name}: {error}"))?;
            sources.add(Source::new(name, text));
        }
        let mut options = (run.options)();
        options.command = COMMAND.to_owned();
        if let Output::Crate(package) = &options.output {
            files.push((Path::new(run.directory).join("README.md"), readme(package, run.sources)));
        }
        let generated = rpcrdma_xdrgen::generate(&sources, &options);
        if !generated.diagnostics.is_empty() {
            return Err(format!("\n{}", diag::plain(&generated.diagnostics, &sources)));
        }
        files.extend(
            generated.files.into_iter().map(|(path, text)| (Path::new(run.directory).join(path), text)),
        );
    }
    let packages = RUNS.iter().map(|run| package_of(run.directory)).collect::<BTreeSet<_>>();
    let guards: Vec<_> = packages
        .into_iter()
        .map(|package| (Path::new(package).join("build.rs"), guard(Path::new(package), &files)))
        .collect();
    files.extend(guards);
    Ok(files)
}

/// The README of a generated crate.
fn readme(package: &Package, sources: &[&str]) -> String {
    let sources: String = sources
        .iter()
        .map(|name| format!("- [`specs/{name}`]({REPOSITORY}/blob/main/specs/{name})\n"))
        .collect();
    let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    README
        .replace("@NAME@", &package.name)
        .replace("@TITLE@", &package.title)
        .replace("@SOURCES@", &sources)
        .replace("@VERSION@", version)
        .replace("@REPOSITORY@", REPOSITORY)
}

/// The package that a directory of generated files belongs to.
fn package_of(directory: &str) -> &str {
    directory.split_once("/src/").map_or(directory, |(package, _)| package)
}

/// The build script of a package with generated Rust. After most edits of such a file its package does not
/// compile, and no test runs: the script therefore prints the command that restores it.
fn guard(package: &Path, files: &[(PathBuf, String)]) -> String {
    let sums: String = files
        .iter()
        .filter_map(|(path, text)| Some((path.strip_prefix(package).ok()?, text)))
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|(path, text)| format!("    (\"{}\", {:#018x}),\n", path.display(), fnv1a(text)))
        .collect();
    GUARD.replace("@COMMAND@", COMMAND).replace("@FILES@", &sums)
}

/// The checksum that the script also computes. Line ends are normalized, since a checkout may change them.
fn fnv1a(text: &str) -> u64 {
    let bytes = text.bytes().filter(|byte| *byte != b'\r');
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn write(root: &Path) -> Result<(), String> {
    for (path, text) in files(root)? {
        let target = root.join(&path);
        if fs::read_to_string(&target).is_ok_and(|old| old == text) {
            continue;
        }
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        fs::write(&target, text).map_err(failed)?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

/// Compares generated files with the existing ones.
///
/// # Errors
/// Each file that differs, the first line that does, and the command that mends it.
pub fn check(root: &Path) -> Result<(), String> {
    let mut found = Vec::new();
    for (path, text) in files(root)? {
        let shown = path.display();
        match fs::read_to_string(root.join(&path)) {
            Err(error) => found.push(format!("{shown}: {error}")),
            Ok(old) if old == text => {}
            Ok(old) => found.push(format!("{shown}:{}", difference(&old, &text))),
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("generated files are out of date: run `{COMMAND}`\n  {}", found.join("\n  ")))
}

/// The number of the first line that differs, and both lines.
fn difference(old: &str, new: &str) -> String {
    let mut old_lines = old.lines();
    let mut new_lines = new.lines();
    for number in 1_usize.. {
        match (old_lines.next(), new_lines.next()) {
            (None, None) => break,
            (old, new) if old == new => {}
            (old, new) => {
                let line = |line: Option<&str>| {
                    line.map_or("the end of the file".to_owned(), |line| format!("`{line}`"))
                };
                return format!("{number}: is {}, would be {}", line(old), line(new));
            }
        }
    }
    " line ends differ".to_owned()
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_first_different_line_is_named() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "2: is `b`, would be `c`");
        assert_eq!(difference("a\n", "a\nb\n"), "2: is the end of the file, would be `b`");
    }
}
