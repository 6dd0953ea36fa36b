//! Compiles the documents in `PROTOCOLS` with `arbitrary::Arbitrary` derived, for `tests/reduction.rs`.
//! Writes `checks.rs`, which checks every type in the emitted code. Also compiles the programs of
//! `backward/notices.x` and of the guides in `GUIDES`.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// Names of modules, and the paths of their documents without extensions. A document `NAME.txt` or `NAME.x`
/// may have a binding, `NAME.ddp.toml`.
const PROTOCOLS: &[(&str, &[&str])] = &[
    ("nfs3", &["../specs/nfs3"]),
    ("mount3", &["../specs/mount3"]),
    ("rpcbind", &["../specs/rpcbind"]),
    ("rdma_conf", &["../specs/rdma-conf"]),
    ("keepalive", &["../specs/rpcrdma1", "../specs/rpcrdma1-keepalive"]),
    ("rpc_msg", &["../specs/rpc"]),
    ("rpcsec_gss", &["../specs/rpcsec_gss"]),
    ("rpcrdma1", &["../specs/rpcrdma1"]),
    ("compound", &["reduction/compound"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let mut checks = String::new();
    for (module, paths) in PROTOCOLS {
        let mut build = rpcrdma_xdrgen::Build::new().name(*module).derive("arbitrary");
        for path in *paths {
            let documents = [".txt", ".x"].map(|extension| format!("{path}{extension}"));
            let document = documents
                .iter()
                .find(|path| Path::new(path).exists())
                .ok_or("a document of PROTOCOLS has neither a .txt nor a .x file")?;
            build = build.document(document);
            let binding = format!("{path}.ddp.toml");
            if Path::new(&binding).exists() {
                build = build.binding(binding);
            }
        }
        build.compile()?;
        let code = fs::read_to_string(Path::new(&out).join(format!("{module}.rs")))?;
        writeln!(checks, "#[allow(clippy::too_many_lines)]\nfn {module}() -> Vec<Counts> {{ vec![")?;
        for name in types(&code, paths.len() > 1) {
            writeln!(checks, "    check_type::<emitted::{module}::{name}>(\"{module}::{name}\"),")?;
        }
        checks.push_str("] }\n");
    }
    fs::write(Path::new(&out).join("checks.rs"), checks)?;
    let notices = rpcrdma_xdrgen::Build::new().name("notices").document("backward/notices.x");
    notices.binding("backward/notices.ddp.toml").compile()?;
    GUIDES.iter().try_for_each(|(file, document, part)| guide(Path::new(&out), file, document, part))
}

/// Guides that show a document and its binding. Each entry has the path of the guide, the file name for the
/// document, and a string that identifies the document's block.
const GUIDES: &[(&str, &str, &str)] = &[
    ("../docs/getting-started.md", "kv.txt", "\n/// "),
    ("../docs/callbacks.md", "watches.x", "\nprogram WATCHES"),
];

fn guide(out: &Path, guide: &str, document: &str, part: &str) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={guide}");
    let guide = fs::read_to_string(guide)?;
    let block = |mark: &str| {
        let block = guide.split("```").find(|block| block.contains(mark) && !block.starts_with("rust"));
        block
            .and_then(|block| block.split_once('\n'))
            .map(|(_, text)| text)
            .ok_or("a guide in GUIDES lacks the block of its document or binding")
    };
    let document = out.join(document);
    let binding = document.with_extension("ddp.toml");
    fs::write(&document, block(part)?)?;
    fs::write(&binding, block("[[binding]]")?)?;
    rpcrdma_xdrgen::Build::new().document(document).binding(binding).compile()?;
    Ok(())
}

/// Returns the names of the emitted types that have an XDR encoding. If there are several documents, each
/// document has its own module, and the returned names start with the name of the module. Nested modules
/// contain clients and servers and are ignored.
fn types(code: &str, several: bool) -> Vec<String> {
    let (indent, mut module, mut found) = (if several { "    " } else { "" }, String::new(), Vec::new());
    for line in code.lines() {
        if let Some(name) = line.strip_prefix("pub mod ").filter(|_| several) {
            module = format!("{}::", name.trim_end_matches(" {"));
        }
        let Some(line) = line.strip_prefix(indent) else { continue };
        let definition = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
        let name = definition.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
        found.extend(name.map(|name| format!("{module}{name}")));
    }
    found
}
