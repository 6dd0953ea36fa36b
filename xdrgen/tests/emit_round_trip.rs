//! What is emitted compiles without a warning, and every value of every type comes back as it was: for a document with
//! all of the language's constructs, for this project's documents, and for the texts of RFCs where they are at hand.

mod samples;
mod scratch;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;

use scratch::{Scratch, workspace};
use xdrgen::source::{Source, Sources};
use xdrgen::{Options, diag};

/// RFC texts, each with the documents it stands on, and the number of types and procedures in it.
const RFCS: &[(&str, &[&str], usize, usize)] = &[
    ("rfc8166", &[], 14, 0),
    ("rfc1813", &[], 145, 28),
    ("rfc1833", &[], 21, 26),
    ("rfc5531", &[], 17, 3),
    ("rfc4506", &[], 6, 0),
    ("rfc1094", &[], 28, 20),
    ("rfc5666", &[], 13, 1),
    ("rfc5403", &[], 12, 0),
    ("rfc5662", &["specs/rpc.txt"], 0, 4),
    ("rfc7863", &["specs/rpc.txt"], 0, 4),
];

/// One module of the crate: its name, its text, and the test that goes with it.
struct Module {
    name: String,
    text: String,
}

fn compile(name: &str, documents: &[&Path]) -> (Module, xdrgen::Summary) {
    let mut sources = Sources::default();
    for path in documents {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sources.add(Source::new(*path, String::from_utf8_lossy(&bytes)));
    }
    let options = Options::module(name);
    let generated = xdrgen::generate(&sources, &options);
    assert!(!generated.has_errors(), "{name}:\n{}", diag::render(&generated.diagnostics, &sources, false));
    let (ir, _) = xdrgen::generate::lower(&sources, &options);
    let code = &generated.files.first().expect("one file").1;
    let text = format!("{code}\n{}", samples::tests(&ir));
    (Module { name: name.to_owned(), text }, generated.summary)
}

fn modules(corpus: Option<OsString>) -> Vec<Module> {
    let root = workspace();
    let own = |name: &str| {
        let (document, binding) =
            (root.join(format!("specs/{name}.txt")), root.join(format!("specs/{name}.ddp.toml")));
        let documents: Vec<&Path> = [&document, &binding]
            .into_iter()
            .map(|path| path.as_path())
            .filter(|path| path.exists())
            .collect();
        compile(&name.replace('-', "_"), &documents).0
    };
    let mut modules: Vec<Module> =
        ["rpc", "rpcrdma1", "nfs3", "mount3", "rpcbind", "rdma-conf"].map(own).into();
    let language = root.join("xdrgen/tests/language.x");
    modules.push(compile("language", &[&language]).0);
    let Some(corpus) = corpus else { return modules };
    for (name, others, types, procedures) in RFCS {
        let path = Path::new(&corpus).join(format!("rfc/{name}.txt"));
        let others: Vec<_> = others.iter().map(|other| root.join(other)).collect();
        let documents: Vec<&Path> =
            others.iter().map(|other| other.as_path()).chain(std::iter::once(path.as_path())).collect();
        let (module, summary) = compile(name, &documents);
        assert!(summary.types >= *types, "{name}: {summary:?}");
        assert_eq!(summary.procedures, *procedures, "{name}: {summary:?}");
        modules.push(module);
    }
    modules
}

#[test]
fn every_type_compiles_without_a_warning_and_round_trips() {
    let runtime = workspace().join("rpcrdma-runtime");
    let manifest = format!(
        "[dependencies]\nrpcrdma-runtime = {{ path = {runtime:?}, default-features = false }}\n\n\
         [lints.rust]\nmissing_docs = \"deny\"\nunreachable_pub = \"deny\"\nwarnings = \"deny\"\n"
    );
    let scratch = Scratch::new("emitted", &manifest);
    let mut lib = format!("//! Emitted.\n\n{}\n", samples::SUPPORT);
    let corpus = std::env::var_os("XDRGEN_CORPUS");
    if corpus.is_none() {
        // Not `println!`: the harness would keep that to itself.
        let notice = "XDRGEN_CORPUS is not set: the texts of RFCs are left out";
        writeln!(std::io::stderr(), "{notice}").expect("standard error takes the notice");
    }
    let modules = modules(corpus);
    for module in &modules {
        scratch.write(&format!("src/{}.rs", module.name), &module.text);
        lib.push_str(&format!("/// Emitted.\npub mod {};\n", module.name));
    }
    scratch.write("src/lib.rs", &lib);
    let (success, output) = scratch.cargo(&["test", "--quiet"]);
    assert!(success, "{output}");
    // One test a module: each of them ran.
    assert!(output.contains(&format!("{} passed", modules.len())), "{output}");
}
