//! The output compiles without warnings, and sample values of every type round-trip. The documents are
//! `language.x` with all constructs of the language, `namespaces.x`, the documents in `specs/`, and all
//! available published documents. `support/samples/support.rs` also tests invalid encodings: truncated
//! encodings must be rejected, and encodings with changed words must be rejected or round-trip.

#[path = "support/samples.rs"]
mod samples;
#[path = "support/scratch.rs"]
mod scratch;

use std::fs;
use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Manifest, Options, Output, Package, diag};
use scratch::{Scratch, workspace};

/// Published documents that are compiled together, the common base first. Other documents are compiled alone.
const TOGETHER: &[&[&str]] = &[
    &["rfc/rfc7863.txt", "rfc/rfc8276.txt", "rfc/rfc8435.txt", "rfc/rfc5664.txt"],
    &["x/libnsl-nis_object.x", "x/libnsl-nis.x", "x/libnsl-nis_callback.x"],
];

/// Like `TOGETHER`, for this project's documents.
const OWN_TOGETHER: &[&[&str]] = &[&["rpcrdma1.txt", "rpcrdma1-keepalive.txt"]];

/// Documents with errors, and the reasons. Their valid definitions are emitted with `keep_going`.
const REFUSED: &[(&str, &str)] = &[
    ("x/ypserv-ypxfrd.x", "a stray letter after the comment of the last member of an enum"),
    ("rfc/rfc1094.txt", "procedures with undefined or omitted types"),
    ("rfc/rfc5040.txt", NOTHING),
    ("rfc/rfc5041.txt", NOTHING),
    ("rfc/rfc5044.txt", NOTHING),
    ("rfc/rfc6581.txt", NOTHING),
    ("rfc/rfc8167.txt", NOTHING),
    ("rfc/rfc8267.txt", NOTHING),
    ("rfc/rfc8797.txt", NOTHING),
];

const NOTHING: &str = "no definition";

/// The numbers of types, programs and procedures in documents. The last value is the number of types that the
/// compiler supplies, counted by hand, or `None` if the definitions are not marked with `///`. In marked
/// documents, the test counts all other types by the first words of their definitions.
const COUNTS: &[(&[&str], [usize; 3], Option<usize>)] = &[
    // 23 typedefs, 7 enums, 83 structs and 34 unions. `nlm4_lock` and `nlm4_share` are missing, since
    // they use undefined names; `netobj` is supplied.
    (&["rfc/rfc1813.txt"], [146, 2, 28], None),
    (&["rfc/rfc1833.txt"], [21, 2, 26], None),
    (&["rfc/rfc5531.txt"], [17, 1, 3], None),
    // 124 typedefs, 28 enums, 197 structs, 61 unions, and the supplied `authsys_parms`.
    (&["rfc/rfc5662.txt"], [411, 2, 4], Some(1)),
    // 131 typedefs, 32 enums, 236 structs, 71 unions, and the supplied `authsys_parms`.
    (&["rfc/rfc7863.txt"], [471, 2, 4], Some(1)),
    // RFC 8276 defines 13 types: 3 typedefs, 1 enum, 5 structs and 4 unions. It also adds members and
    // arms to other types.
    (&["rfc/rfc7863.txt", "rfc/rfc8276.txt"], [484, 2, 4], Some(1)),
    (&["rfc/rfc8166.txt"], [14, 0, 0], Some(0)),
];

/// The groups of documents that become separate crates, by the name of the first document. All other groups
/// are modules of one crate.
const CRATES: &[&str] = &["rfc1813", "rfc5662", "rfc7863"];

struct Emitted {
    name: String,
    files: Vec<(PathBuf, String)>,
    tests: String,
}

impl Emitted {
    fn is_crate(&self) -> bool {
        CRATES.contains(&self.name.as_str())
    }
}

fn sources(documents: &[PathBuf]) -> Sources {
    let mut sources = Sources::default();
    for path in documents {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sources.add(Source::new(path, String::from_utf8_lossy(&bytes)));
    }
    sources
}

fn compile(name: &str, documents: &[PathBuf], refused: bool) -> Emitted {
    let sources = sources(documents);
    let runtime = Some(workspace().join("rpcrdma-runtime").display().to_string());
    let package = Package::new(name, "Emitted.", Manifest::Alone { runtime });
    let is_crate = CRATES.contains(&name);
    let output = if is_crate { Output::Crate(package) } else { Options::module(name).output };
    let options = Options { output, keep_going: refused, ..Options::module(name) };
    let generated = rpcrdma_xdrgen::generate(&sources, &options);
    assert_eq!(
        generated.has_errors(),
        refused,
        "{name}:\n{}",
        diag::render(&generated.diagnostics, &sources, false)
    );
    let (ir, _) = rpcrdma_xdrgen::generate::lower(&sources, &options);
    let root = if is_crate { name.to_owned() } else { format!("emitted::{name}") };
    let is_root = |path: &Path| path.ends_with("src/lib.rs") || !is_crate;
    let text = generated.files.iter().find(|(path, _)| is_root(path)).map(|(_, text)| text);
    let homes = homes(root, text.expect("a file of Rust"), generated.summary.documents);
    Emitted { name: name.to_owned(), files: generated.files, tests: samples::tests(&ir, &homes) }
}

/// Returns the paths of the modules that contain the types: `root` for one document, otherwise one module per
/// document.
fn homes(root: String, text: &str, documents: usize) -> Vec<String> {
    if documents == 1 {
        return vec![root];
    }
    let modules = text.lines().filter_map(|line| line.strip_prefix("pub mod "));
    modules.map(|module| format!("{root}::{}", module.trim_end_matches([' ', '{', ';']))).collect()
}

fn own() -> Vec<Emitted> {
    let root = workspace();
    let mut emitted = vec![compile("language", &[root.join("xdrgen/tests/language.x")], false)];
    // Generated tests use names without paths, which are ambiguous in this document. Therefore, its tests
    // are written by hand.
    let namespaces = compile("namespaces", &[root.join("xdrgen/tests/namespaces.x")], false);
    emitted.push(Emitted { tests: NAMESPACES.to_owned(), ..namespaces });
    let specs = root.join("specs");
    let texts: Vec<String> = listed(&specs).into_iter().filter(|name| name.ends_with(".txt")).collect();
    for group in groups(&texts, OWN_TOGETHER) {
        let mut documents: Vec<PathBuf> = group.iter().map(|name| specs.join(name)).collect();
        let bindings: Vec<PathBuf> = documents.iter().map(|path| path.with_extension("ddp.toml")).collect();
        documents.extend(bindings.into_iter().filter(|path| path.exists()));
        emitted.push(compile(&stem(&group), &documents, false));
    }
    emitted
}

fn published(corpus: &Path) -> Vec<Emitted> {
    let in_folder =
        |folder| listed(&corpus.join(folder)).into_iter().map(move |name| format!("{folder}/{name}"));
    let names: Vec<String> = ["rfc", "x"].into_iter().flat_map(in_folder).collect();
    let place = |name: &&str| corpus.join(name);
    for (names, counts, supplied) in COUNTS {
        let sources = sources(&names.iter().map(place).collect::<Vec<_>>());
        let summary = rpcrdma_xdrgen::check(&sources, &Options::module("counted")).summary;
        assert_eq!([summary.types, summary.programs, summary.procedures], *counts, "{names:?}");
        if let Some(supplied) = supplied {
            let counted: usize = sources.iter().map(|(_, source)| type_lines(source.text())).sum();
            assert_eq!(counted + supplied, summary.types, "{names:?}");
        }
    }
    let groups = groups(&names, TOGETHER).into_iter();
    let emitted = groups.map(|group| {
        let paths: Vec<PathBuf> = group.iter().map(place).collect();
        compile(&stem(&group), &paths, REFUSED.iter().any(|(name, _)| group == [*name]))
    });
    emitted.collect()
}

/// Returns the number of lines in a marked document that begin the definition of a type.
fn type_lines(text: &str) -> usize {
    let xdr = text.lines().filter_map(|line| line.trim_start().strip_prefix("///"));
    let outermost = xdr.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let words = outermost.filter_map(|line| line.split(' ').next());
    words.filter(|word| matches!(*word, "typedef" | "enum" | "struct" | "union")).count()
}

/// Returns the groups of documents to compile together. A document that is in no group of `together` forms a
/// separate group.
fn groups<'n>(names: &'n [String], together: &[&[&'n str]]) -> Vec<Vec<&'n str>> {
    let known = |name: &&str| names.iter().any(|one| one == name);
    assert!(together.concat().iter().all(known), "a document of {together:?} is missing");
    let group = |name: &'n String| match together.iter().find(|group| group.contains(&name.as_str())) {
        Some(group) => (group.first() == Some(&name.as_str())).then(|| group.to_vec()),
        None => Some(vec![name.as_str()]),
    };
    names.iter().filter_map(group).collect()
}

fn stem(group: &[&str]) -> String {
    let name = Path::new(group.first().expect("a document")).file_stem().expect("a file has a name");
    name.to_string_lossy().replace('-', "_")
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const HOSTILE: &str = include_str!("support/samples/hostile.rs");
const HOSTILE_NFS: &str = include_str!("support/samples/hostile_nfs.rs");

const NAMESPACES: &str = include_str!("support/samples/namespaces.rs");

#[test]
fn every_type_compiles_without_a_warning_and_round_trips() {
    let mut emitted = own();
    let mut hostile = vec![("hostile", HOSTILE, 3)];
    match std::env::var_os("XDRGEN_CORPUS") {
        Some(corpus) => {
            emitted.extend(published(Path::new(&corpus)));
            hostile.push(("hostile_nfs", HOSTILE_NFS, 8));
        }
        None => not_run::not_run("XDRGEN_CORPUS is not set: no published documents"),
    }
    let expected = emitted.len() + hostile.iter().map(|(_, _, tests)| tests).sum::<usize>();
    let (success, output) = run(&emitted, &hostile);
    assert!(success, "{output}");
    // One test for each group of documents, and the tests of invalid encodings, must have run.
    assert!(output.contains(&format!("{expected} passed")), "{output}");
}

fn run(emitted: &[Emitted], hostile: &[(&str, &str, usize)]) -> (bool, String) {
    const LINTS: &str =
        "\n[lints.rust]\nmissing_docs = \"deny\"\nunreachable_pub = \"deny\"\nwarnings = \"deny\"\n";
    let runtime = workspace().join("rpcrdma-runtime");
    let mut manifest =
        format!("[dependencies]\nrpcrdma-runtime = {{ path = {runtime:?}, default-features = false }}\n");
    for one in emitted.iter().filter(|one| one.is_crate()) {
        manifest.push_str(&format!("{0} = {{ path = \"{0}\" }}\n", one.name));
    }
    manifest.push_str("\n[dev-dependencies]\nallocation-counter = \"0.8\"\n");
    let scratch = Scratch::new("emitted", &format!("{manifest}{LINTS}"));
    let mut lib = String::from("//! Emitted.\n\n");
    // The tests are in a separate crate, so that they use the types as a user does and the types are
    // compiled only once.
    let mut main =
        String::from("//! Tests of the emitted code.\n#![allow(unreachable_pub)]\n\nmod sample;\n");
    scratch.write("tests/all/sample.rs", samples::SUPPORT);
    for one in emitted {
        for (path, text) in &one.files {
            let path = path.to_string_lossy();
            match one.is_crate() {
                false => scratch.write(&format!("src/{path}"), text),
                true if path == "Cargo.toml" => {
                    scratch.write(&format!("{}/{path}", one.name), &format!("{text}{LINTS}"));
                }
                true => scratch.write(&format!("{}/{path}", one.name), text),
            }
        }
        if !one.is_crate() {
            lib.push_str(&format!("/// Emitted.\npub mod {};\n", one.name));
        }
        scratch.write(&format!("tests/all/test_{}.rs", one.name), &one.tests);
        main.push_str(&format!("mod test_{};\n", one.name));
    }
    for (name, text, _) in hostile {
        scratch.write(&format!("tests/all/{name}.rs"), text);
        main.push_str(&format!("mod {name};\n"));
    }
    scratch.write("src/lib.rs", &lib);
    scratch.write("tests/all/main.rs", &main);
    scratch.cargo(&["test", "--quiet", "--test", "all"])
}
