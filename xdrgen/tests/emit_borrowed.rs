//! Borrowed output compiles without warnings, reads and writes the same bytes as owned output, and neither
//! copies nor allocates.

#[path = "support/samples.rs"]
mod samples;
#[path = "support/scratch.rs"]
mod scratch;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::ir::{Item, Module};
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Data, Options, diag};
use scratch::{Scratch, workspace};

fn sources(documents: &[PathBuf]) -> Sources {
    let mut sources = Sources::default();
    for path in documents {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sources.add(Source::new(path, String::from_utf8_lossy(&bytes)));
    }
    sources
}

fn emit(name: &str, sources: &Sources, data: Data) -> (String, Module) {
    let options = Options { data, ..Options::module(name) };
    let generated = rpcrdma_xdrgen::generate(sources, &options);
    assert!(!generated.has_errors(), "{name}:\n{}", diag::render(&generated.diagnostics, sources, false));
    let (ir, _) = rpcrdma_xdrgen::generate::lower(sources, &options);
    (generated.files.into_iter().next().expect("one file").1, ir)
}

const LEND: &str = include_str!("borrowed/lend.rs");

/// Returns a test that compares each type of a borrowed module with its owned counterpart.
fn tests(name: &str, module: &Module) -> String {
    let mut text = String::from(
        "use rpcrdma_runtime::xdr::{Encode, Layout, Size, from_slice};\n\nuse crate::lend::check;\n\n#[test]\nfn every_type() {\n",
    );
    for item in &module.order {
        let Item::Type(id) = item else { continue };
        let Some(ty) = module.get(*id) else { continue };
        let owned = format!("borrowed::{name}::{}", ty.ident);
        let twin = format!("borrowed::{name}_ref::{}{}", ty.ident, if ty.borrows { "<'_>" } else { "" });
        let sizes =
            format!("[Size::Bounded(<{twin} as Layout>::LENGTHS.min), <{twin} as Layout>::LENGTHS.max]");
        let copied = if ty.derives.copy { "value" } else { "value.clone()" };
        let _ = writeln!(
            text,
            "    check::<{owned}>({sizes}, |bytes, sink| {{ let value: {twin} = from_slice(bytes)?; assert!(value == {copied}); value.encode(sink) }});"
        );
    }
    text + "}\n"
}

fn documents() -> Vec<(&'static str, Vec<PathBuf>)> {
    let root = workspace();
    let mut documents: Vec<(&str, Vec<PathBuf>)> = ["rpc", "nfs3", "mount3", "rpcbind"]
        .map(|name| (name, vec![root.join(format!("specs/{name}.txt"))]))
        .into();
    documents.push(("language", vec![root.join("xdrgen/tests/language.x")]));
    match std::env::var_os("XDRGEN_CORPUS") {
        Some(corpus) => {
            for name in ["rfc5662", "rfc7863"] {
                documents.push((name, vec![Path::new(&corpus).join(format!("rfc/{name}.txt"))]));
            }
        }
        None => not_run::not_run("XDRGEN_CORPUS is not set: no published documents"),
    }
    documents
}

#[test]
fn every_borrowed_type_equals_the_owned_encoding_and_does_not_allocate() {
    let runtime = workspace().join("rpcrdma-runtime");
    let scratch = Scratch::new(
        "borrowed",
        &format!(
            "[dependencies]\nrpcrdma-runtime = {{ path = {runtime:?}, default-features = false }}\n\n\
             [dev-dependencies]\nallocation-counter = \"0.8\"\n\n\
             [lints.rust]\nmissing_docs = \"deny\"\nunreachable_pub = \"deny\"\nwarnings = \"deny\"\n"
        ),
    );
    let mut lib = String::from("//! Emitted.\n\n");
    let mut main = String::from("//! Tests of the emitted code.\n#![allow(unreachable_pub)]\n\n");
    let shared = [("sample", samples::SUPPORT), ("lend", LEND), ("files", FILES), ("calls", CALLS)];
    for (name, text) in shared {
        scratch.write(&format!("tests/all/{name}.rs"), text);
        let _ = writeln!(main, "mod {name};");
    }
    let documents = documents();
    for (name, paths) in &documents {
        let sources = sources(paths);
        let (owned, ir) = emit(name, &sources, Data::Bytes);
        scratch.write(&format!("src/{name}.rs"), &owned);
        scratch.write(&format!("tests/all/{name}.rs"), &samples::tests(&ir, &[format!("borrowed::{name}")]));
        let (borrowed, ir) = emit(name, &sources, Data::Borrowed);
        scratch.write(&format!("src/{name}_ref.rs"), &borrowed);
        scratch.write(&format!("tests/all/{name}_ref.rs"), &tests(name, &ir));
        let _ = writeln!(lib, "/// Emitted.\npub mod {name};\n/// Emitted.\npub mod {name}_ref;");
        let _ = writeln!(main, "mod {name};\nmod {name}_ref;");
    }
    scratch.write("src/lib.rs", &lib);
    scratch.write("tests/all/main.rs", &main);
    let (success, output) = scratch.cargo(&["test", "--quiet", "--test", "all"]);
    assert!(success, "{output}");
    // Two tests for each document, and the tests of `FILES` and `CALLS`, must have run.
    assert!(output.contains(&format!("{} passed", 2 * documents.len() + 3)), "{output}");
}

/// Returns the code emitted for a document, without comments, `#[doc]` attributes or line endings.
fn code(text: &str, options: &Options) -> String {
    let mut sources = Sources::default();
    sources.add(Source::new("a.x", text));
    let generated = rpcrdma_xdrgen::generate(&sources, options);
    assert!(generated.diagnostics.is_empty(), "{}", diag::render(&generated.diagnostics, &sources, false));
    let lines = generated.files[0].1.lines().map(str::trim);
    lines.filter(|line| !line.starts_with("//") && !line.starts_with("#[doc")).collect::<Vec<_>>().join(" ")
}

#[test]
fn only_types_that_hold_data_have_a_lifetime() {
    let options = Options { data: Data::Borrowed, ..Options::module("a") };
    let code = code(
        "const N = 8;\ntypedef opaque handle<N>;\ntypedef string text<>;\ntypedef int many<>;\ntypedef int few<N>;\n\
         struct plain { int a; opaque b[4]; };\nstruct holds { handle a; plain b; text c; few d; plain e<3>; };\n\
         struct through { holds a[2]; plain *b; };\nunion expr switch (int op) { case 0: int a; case 1: expr negated; };\n\
         struct node { int a; node *next; };\nstruct list { node *first; };\n\
         union either switch (bool yes) { case TRUE: plain a; case FALSE: many b; };\n\
         struct ArrayRef { int x; };\nstruct Vec { int x; };\n",
        &options,
    );
    for expected in [
        "use ::rpcrdma_runtime::xdr::{ArrayRef, BoxRef, ListRef, OpaqueRef, StringRef, Xdr};",
        "pub type Handle<'a> = OpaqueRef<'a, N>;",
        "pub type Text<'a> = StringRef<'a>;",
        "pub type Many<'a> = ArrayRef<'a, i32>;",
        "pub struct Few<'a>(pub ArrayRef<'a, i32, N>);",
        "impl<'a> ::core::convert::From<ArrayRef<'a, i32, N>> for Few<'a> {",
        "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)] pub struct Plain {",
        "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Xdr)] pub struct Holds<'a> { pub a: Handle<'a>, pub b: Plain, pub c: Text<'a>, pub d: Few<'a>, pub e: ArrayRef<'a, Plain, 3>, }",
        "pub struct Through<'a> { pub a: [Holds<'a>; 2], pub b: Option<Plain>, }",
        "pub enum Expr<'a> {",
        "BoxRef<'a, Expr<'a>>",
        "pub struct Node<'a> { pub a: i32, pub next: ListRef<'a, NodeElement>, }",
        "pub struct NodeElement { pub a: i32, }",
        "pub struct List<'a> { pub first: ListRef<'a, NodeElement>, }",
        "pub enum Either<'a> {",
        "pub struct ArrayRef_ {",
    ] {
        assert!(code.contains(expected), "no `{expected}` in\n{code}");
    }
}

#[test]
fn a_build_script_enables_borrowed_output_with_one_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let document = workspace().join("specs/mount3.txt");
    let build = rpcrdma_xdrgen::Build::new().document(document).out_dir(directory.path()).borrowed();
    let summary = build.compile().expect("a valid document");
    let text = fs::read_to_string(directory.path().join("mount3.rs")).expect("the file");
    assert!(text.contains("pub struct Mountbody<'a>") && summary.procedures == 6, "{summary:?}");
}

#[test]
fn a_binding_without_eligible_items_stays() {
    let mut sources =
        sources(&[workspace().join("specs/mount3.txt"), workspace().join("specs/mount3.ddp.toml")]);
    let options = Options { data: Data::Borrowed, ..Options::module("a") };
    let generated = rpcrdma_xdrgen::generate(&sources, &options);
    assert!(generated.diagnostics.is_empty(), "{:?}", generated.diagnostics);
    let text = &generated.files[0].1;
    assert!(text.contains("impl program::Binding for MountV3"), "{text}");
    assert!(text.contains("fn reply_bounds(_args: &Self::Args<'_>) -> program::ReplyBounds"), "{text}");

    for name in ["specs/nfs3.txt", "specs/nfs3.ddp.toml"] {
        let path = workspace().join(name);
        sources.add(Source::new(&path, fs::read_to_string(&path).expect("a document")));
    }
    let generated = rpcrdma_xdrgen::generate(&sources, &options);
    let codes: Vec<&str> = generated.diagnostics.iter().map(|found| found.code()).collect();
    assert_eq!(codes, ["X314"]);
    let text = &generated.files[0].1;
    assert!(!text.contains("ddp_eligible") && !text.contains("program::Binding for NfsV3"));
}

const FILES: &str = include_str!("borrowed/files.rs");

const CALLS: &str = include_str!("borrowed/calls.rs");
