//! Compiles the protocols of `specs/` once more, with types that make values of themselves, for `tests/reduction.rs`.
//! Which types there are is read off the code, so that none is forgotten. Then the programs of `tests/backward.rs`.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// Modules, and the documents with their bindings that they come from.
const PROTOCOLS: &[(&str, &str)] = &[
    ("nfs3", "../specs/nfs3"),
    ("mount3", "../specs/mount3"),
    ("rpcbind", "../specs/rpcbind"),
    ("rdma_conf", "../specs/rdma-conf"),
    ("compound", "reduction/compound"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let mut checks = String::new();
    for (module, path) in PROTOCOLS {
        let documents = [".txt", ".x"].map(|extension| format!("{path}{extension}"));
        let document = documents.iter().find(|path| Path::new(path).exists()).ok_or("no document")?;
        let build = xdrgen::Build::new().name(*module).derive("arbitrary");
        build.document(document).binding(format!("{path}.ddp.toml")).compile()?;
        let code = fs::read_to_string(Path::new(&out).join(format!("{module}.rs")))?;
        writeln!(checks, "#[allow(clippy::too_many_lines)]\nfn {module}() -> Vec<Seen> {{ vec![")?;
        for name in types(&code) {
            writeln!(checks, "    every_way::<emitted::{module}::{name}>(\"{module}::{name}\"),")?;
        }
        checks.push_str("] }\n");
    }
    fs::write(Path::new(&out).join("checks.rs"), checks)?;
    let notices = xdrgen::Build::new().name("notices").document("backward/notices.x");
    notices.binding("backward/notices.ddp.toml").compile()?;
    Ok(())
}

/// The types that have an encoding: those of the module itself. The modules in it are clients and servers.
fn types(code: &str) -> impl Iterator<Item = &str> {
    let definitions = code
        .lines()
        .filter_map(|line| line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum ")));
    definitions.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}
