//! `cargo xtask vectors`: encodes values with rpcgen's C code, and writes the encodings to
//! `tests/vectors/rpcgen-*.txt`.
//!
//! Extracts the XDR of two documents in `specs/`, so that rpcgen and rpcrdma-xdrgen read the same text.
//! rpcgen translates this text to C. For each type, this task adds a function that fills a value. The
//! resulting program prints the encodings. This task needs `rpcgen`, `cc`, `pkg-config` and libtirpc.

mod filler;

use std::fs;
use std::path::Path;
use std::process::Command;

use rpcrdma_xdrgen::{Source, SourceId, Sources, diag};

use crate::cargo::target;

/// The documents in `specs/` for which vectors are written, without the extension `.txt`.
const DOCUMENTS: &[&str] = &["nfs3", "mount3"];

const SUPPORT: &str = include_str!("vectors/support.c");

/// Writes the vectors of the workspace at `root`. Intermediate files stay in `target/vectors` for
/// inspection.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let folder = target(root).join("vectors");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for name in DOCUMENTS {
        let values = encoded(root, &folder, name)?;
        let head = format!(
            "# Each line: a type of specs/{name}.txt and the bytes of a value, encoded by rpcgen's C code.\n\
             # Written by `cargo xtask vectors`.\n"
        );
        write(&root.join(format!("tests/vectors/rpcgen-{name}.txt")), &format!("{head}{values}"))?;
    }
    Ok(())
}

fn encoded(root: &Path, folder: &Path, name: &str) -> Result<String, String> {
    let path = root.join(format!("specs/{name}.txt"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut sources = Sources::default();
    sources.add(Source::new(path, text));
    let parsed = rpcrdma_xdrgen::parse(&sources);
    if !parsed.diagnostics.is_empty() {
        return Err(format!("\n{}", diag::plain(&parsed.diagnostics, &sources)));
    }
    let (Some((_, source)), Some((_, document))) = (sources.iter().next(), parsed.documents.first()) else {
        return Err(format!("specs/{name}.txt has no definitions"));
    };
    write(&folder.join(format!("{name}.x")), &rpcrdma_xdrgen::extract(SourceId(0), source).text)?;
    let program = format!("#include \"{name}.h\"\n{SUPPORT}\n{}", filler::functions(document)?);
    write(&folder.join(format!("{name}_fill.c")), &program)?;
    // rpcgen does not overwrite existing files, so this function writes rpcgen's standard output to files.
    for (flag, file) in [("-h", format!("{name}.h")), ("-c", format!("{name}_xdr.c"))] {
        write(&folder.join(file), &output(folder, "rpcgen", &[flag, &format!("{name}.x")])?)?;
    }
    let flags = output(folder, "pkg-config", &["--cflags", "--libs", "libtirpc"])?;
    let (fill, xdr) = (format!("{name}_fill.c"), format!("{name}_xdr.c"));
    let mut arguments = vec!["-w", "-o", name, &fill, &xdr];
    arguments.extend(flags.split_whitespace());
    output(folder, "cc", &arguments)?;
    output(folder, &folder.join(name).to_string_lossy(), &[])
}

fn output(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let ran = Command::new(program).args(arguments).current_dir(folder).output();
    let ran = ran.map_err(|error| format!("`{program}` (required to generate vectors): {error}"))?;
    if !ran.status.success() {
        return Err(format!("`{program}` failed:\n{}", String::from_utf8_lossy(&ran.stderr)));
    }
    String::from_utf8(ran.stdout).map_err(|error| format!("`{program}`: {error}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
