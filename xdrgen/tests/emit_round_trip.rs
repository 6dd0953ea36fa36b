//! What is emitted compiles without a warning, and every value of every type comes back as it was: for a document with
//! all of the language's constructs, for this project's documents, and for every published document that is at hand.
//! What `samples/support.rs` makes of an encoding, be it cut, or with any word of it changed, is refused or borne.

mod samples;
mod scratch;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use scratch::{Scratch, workspace};
use xdrgen::source::{Source, Sources};
use xdrgen::{Options, Summary, diag};

/// Documents that stand on others, and those. Paths are in the folder of published documents, or in the workspace.
const TOGETHER: &[(&str, &[&str])] = &[
    ("x/libnsl-nis.x", &["x/libnsl-nis_object.x"]),
    ("x/libnsl-nis_callback.x", &["x/libnsl-nis_object.x", "x/libnsl-nis.x"]),
];

/// Documents that are compiled as a part of others' modules.
const PARTS: &[&str] = &[];

/// Documents from which nothing is emitted, and why.
const REFUSED: &[(&str, &str)] = &[
    ("rfc/rfc8276.txt", "a comment inside a comment"),
    ("rfc/rfc5664.txt", "it stands on types of RFC 5662 and others"),
    ("rfc/rfc8435.txt", "it stands on types of RFC 5662 and others"),
    ("x/ypserv-ypxfrd.x", "a stray letter in the text of an enum"),
    ("x/nfsutils-nlm_prot.x", "a bound that only a line for C defines"),
    ("x/rpcsvc-nlm_prot.x", "a bound that only a line for C defines"),
];

/// What documents have: types, programs and procedures. Counted in the documents.
const COUNTS: &[(&str, [usize; 3])] = &[
    // 23 typedefs, 7 enums, 83 structs and 34 unions; without `nlm4_lock` and `nlm4_share`, which name what is nowhere
    // defined; with `netobj`, which it takes from elsewhere.
    ("rfc/rfc1813.txt", [146, 2, 28]),
    ("rfc/rfc1833.txt", [21, 2, 26]),
    ("rfc/rfc5531.txt", [17, 1, 3]),
    // 124 typedefs, 28 enums, 197 structs and 61 unions; with `authsys_parms`, which it takes from elsewhere.
    ("rfc/rfc5662.txt", [411, 2, 4]),
    // 131 typedefs, 32 enums, 236 structs and 71 unions; with `authsys_parms`.
    ("rfc/rfc7863.txt", [471, 2, 4]),
    ("rfc/rfc8166.txt", [14, 0, 0]),
];

/// One module of the crate: its name, its text, and the tests that go with it.
struct Module {
    name: String,
    text: String,
    tests: String,
}

fn sources(documents: &[PathBuf]) -> Sources {
    let mut sources = Sources::default();
    for path in documents {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sources.add(Source::new(path, String::from_utf8_lossy(&bytes)));
    }
    sources
}

fn compile(name: &str, documents: &[PathBuf]) -> (Module, Summary) {
    let sources = sources(documents);
    let options = Options::module(name);
    let generated = xdrgen::generate(&sources, &options);
    assert!(!generated.has_errors(), "{name}:\n{}", diag::render(&generated.diagnostics, &sources, false));
    let (ir, _) = xdrgen::generate::lower(&sources, &options);
    let text = generated.files.first().expect("one file").1.clone();
    let tests = samples::tests(&ir, &homes(name, &text, generated.summary.documents));
    (Module { name: name.to_owned(), text, tests }, generated.summary)
}

/// Where the types stand: of several documents each has a module.
fn homes(name: &str, text: &str, documents: usize) -> Vec<String> {
    if documents == 1 {
        return vec![format!("emitted::{name}")];
    }
    let modules = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(" {"));
    modules.map(|module| format!("emitted::{name}::{module}")).collect()
}

/// The document with all of the language's constructs, and this project's documents.
fn own() -> Vec<Module> {
    let root = workspace();
    let mut modules = vec![compile("language", &[root.join("xdrgen/tests/language.x")]).0];
    for name in ["rpc", "rpcrdma1", "nfs3", "mount3", "rpcbind", "rdma-conf"] {
        let mut documents = vec![root.join(format!("specs/{name}.txt"))];
        documents.extend(Some(root.join(format!("specs/{name}.ddp.toml"))).filter(|path| path.exists()));
        modules.push(compile(&name.replace('-', "_"), &documents).0);
    }
    modules
}

/// Every document in the folder of published ones, but for those that are refused.
fn published(corpus: &Path) -> Vec<Module> {
    let mut modules = Vec::new();
    let mut seen = BTreeSet::new();
    for name in ["rfc", "x"].iter().flat_map(|folder| listed(corpus, folder)) {
        seen.insert(name.clone());
        let skipped = |list: &[&str]| list.contains(&name.as_str());
        if skipped(PARTS) || skipped(&REFUSED.iter().map(|(name, _)| *name).collect::<Vec<_>>()) {
            continue;
        }
        let others = TOGETHER.iter().find(|(one, _)| *one == name).map_or(&[][..], |(_, others)| others);
        let place = |name: &str| {
            let root = if name.starts_with("specs/") { workspace() } else { corpus.to_owned() };
            root.join(name)
        };
        let documents: Vec<PathBuf> = others.iter().map(|other| place(other)).chain([place(&name)]).collect();
        let stem = place(&name).file_stem().expect("a file has a name").to_string_lossy().replace('-', "_");
        let (module, summary) = compile(&stem, &documents);
        if let Some((_, counts)) = COUNTS.iter().find(|(one, _)| *one == name) {
            assert_eq!([summary.types, summary.programs, summary.procedures], *counts, "{name}");
        }
        modules.push(module);
    }
    let tables = [TOGETHER.iter().map(|(name, _)| *name).collect(), PARTS.to_vec()];
    for name in tables.concat() {
        assert!(seen.contains(name), "{name} is in a table, but not in the folder");
    }
    modules
}

/// The files of a folder, in order, as `folder/name`.
fn listed(corpus: &Path, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(corpus.join(folder)).expect("the folder has this one");
    let mut names: Vec<String> = entries
        .map(|entry| format!("{folder}/{}", entry.expect("a readable entry").file_name().to_string_lossy()))
        .collect();
    names.sort();
    names
}

#[test]
fn every_type_compiles_without_a_warning_and_round_trips() {
    let mut modules = own();
    let mut hostile = vec![("hostile", samples::HOSTILE, 3)];
    match std::env::var_os("XDRGEN_CORPUS") {
        Some(corpus) => {
            modules.extend(published(Path::new(&corpus)));
            hostile.push(("hostile_nfs", samples::HOSTILE_NFS, 8));
        }
        None => {
            // Not `println!`: the harness would keep that to itself.
            let notice = "XDRGEN_CORPUS is not set: published documents are left out";
            writeln!(std::io::stderr(), "{notice}").expect("standard error takes the notice");
        }
    }
    let expected = modules.len() + hostile.iter().map(|(_, _, tests)| tests).sum::<usize>();
    let (success, output) = run(&modules, &hostile);
    assert!(success, "{output}");
    // One test a module, and those of encodings that are made up: each of them ran.
    assert!(output.contains(&format!("{expected} passed")), "{output}");
}

/// Makes a crate of the modules, with a test of each, and runs the tests.
fn run(modules: &[Module], hostile: &[(&str, &str, usize)]) -> (bool, String) {
    let runtime = workspace().join("rpcrdma-runtime");
    let manifest = format!(
        "[dependencies]\nrpcrdma-runtime = {{ path = {runtime:?}, default-features = false }}\n\n\
         [dev-dependencies]\nallocation-counter = \"0.8\"\n\n\
         [lints.rust]\nmissing_docs = \"deny\"\nunreachable_pub = \"deny\"\nwarnings = \"deny\"\n"
    );
    let scratch = Scratch::new("emitted", &manifest);
    let mut lib = String::from("//! Emitted.\n\n");
    // The tests are a crate of their own: they use the modules as a user does, and those are compiled once.
    let mut main = String::from("//! Tests of what is emitted.\n#![allow(unreachable_pub)]\n\nmod sample;\n");
    scratch.write("tests/all/sample.rs", samples::SUPPORT);
    for module in modules {
        scratch.write(&format!("src/{}.rs", module.name), &module.text);
        scratch.write(&format!("tests/all/{}.rs", module.name), &module.tests);
        lib.push_str(&format!("/// Emitted.\npub mod {};\n", module.name));
        main.push_str(&format!("mod {};\n", module.name));
    }
    for (name, text, _) in hostile {
        scratch.write(&format!("tests/all/{name}.rs"), text);
        main.push_str(&format!("mod {name};\n"));
    }
    scratch.write("src/lib.rs", &lib);
    scratch.write("tests/all/main.rs", &main);
    scratch.cargo(&["test", "--quiet", "--test", "all"])
}
