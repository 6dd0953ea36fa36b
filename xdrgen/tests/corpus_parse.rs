//! Compiles published documents if `XDRGEN_CORPUS` names a directory that contains `rfc/` and `x/`.

use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::ast::{DefinitionKind, Specification};
use rpcrdma_xdrgen::diag::{Diagnostic, has_errors, render};
use rpcrdma_xdrgen::extract::Form;
use rpcrdma_xdrgen::parse::{ParseOptions, parse_with};
use rpcrdma_xdrgen::source::{Source, SourceId, Sources};

/// Returns the directory of the documents. If `XDRGEN_CORPUS` is not set, records the test as not run and
/// returns `None`.
fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        not_run::not_run("XDRGEN_CORPUS is not set: no published documents");
    }
    folder
}

fn source(path: &Path) -> Source {
    let bytes = std::fs::read(path).expect("a readable document");
    Source::new(path.file_name().expect("a file has a name"), String::from_utf8_lossy(&bytes).into_owned())
}

fn parsed(path: &Path) -> (Sources, Specification, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    sources.add(source(path));
    let mut parsed = rpcrdma_xdrgen::parse(&sources);
    let (_, specification) = parsed.documents.remove(0);
    (sources, specification, parsed.diagnostics)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the corpus has this folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.sort();
    files
}

/// Returns the numbers of constants, typedefs, enums, structs, unions, programs, versions and procedures.
fn count(specification: &Specification) -> [usize; 8] {
    let mut counts = [0; 8];
    for definition in &specification.definitions {
        match &definition.kind {
            DefinitionKind::Const(_) => counts[0] += 1,
            DefinitionKind::Typedef(_) => counts[1] += 1,
            DefinitionKind::Enum(..) => counts[2] += 1,
            DefinitionKind::Struct(..) => counts[3] += 1,
            DefinitionKind::Union(..) => counts[4] += 1,
            DefinitionKind::Program(program) => {
                counts[5] += 1;
                counts[6] += program.versions.len();
                counts[7] += program.versions.iter().map(|version| version.procedures.len()).sum::<usize>();
            }
            DefinitionKind::PassThrough(_) => {}
        }
    }
    counts
}

/// Documents with parse errors: the code and line of each error, and the reason.
const WRONG: &[(&str, &str, u32, &str)] =
    &[("ypserv-ypxfrd.x", "X119", 112, "a stray letter after the comment of the last member of an enum")];

/// Documents without XDR definitions.
const WITHOUT: &[&str] = &[
    "rfc5040.txt",
    "rfc5041.txt",
    "rfc5044.txt",
    "rfc6581.txt",
    "rfc8167.txt",
    "rfc8267.txt",
    "rfc8797.txt",
];

#[test]
fn every_published_document_parses() {
    let Some(corpus) = corpus() else { return };
    for path in files(&corpus.join("rfc")).into_iter().chain(files(&corpus.join("x"))) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (sources, specification, diagnostics) = parsed(&path);
        let (id, source) = sources.iter().next().unwrap();
        let errors = diagnostics.iter().filter(|found| found.is_error());
        let errors: Vec<(&str, u32)> =
            errors.map(|found| (found.code(), source.line_column(found.span.start).line)).collect();
        let expected = WRONG.iter().filter(|(document, ..)| *document == name);
        let expected: Vec<(&str, u32)> = expected.map(|(_, code, line, _)| (*code, *line)).collect();
        assert_eq!(errors, expected, "{name}\n{}", render(&diagnostics, &sources, false));
        assert_eq!(specification.definitions.is_empty(), WITHOUT.contains(&name.as_str()), "{name}");
        assert!(specification.definitions.iter().all(|definition| definition.span.source == id));
    }
}

#[test]
fn every_x_file_parses_with_any_definitions() {
    let Some(corpus) = corpus() else { return };
    for path in files(&corpus.join("x")) {
        for name in ["RPC_HDR", "RPC_XDR", "RPC_CLNT", "RPC_SVC"] {
            let mut sources = Sources::default();
            sources.add(source(&path));
            let options = ParseOptions { defined: [name.to_owned()].into(), ..ParseOptions::default() };
            let found = parse_with(&sources, &options).diagnostics;
            let wrong = WRONG.iter().any(|(document, ..)| path.ends_with(document));
            assert_eq!(has_errors(&found), wrong, "{}\n{}", path.display(), render(&found, &sources, false));
        }
    }
}

/// The form of each document, and the numbers of its definitions in the order of [`count`]. The numbers are
/// counted by hand or with `grep` for the first lines of definitions.
const COMPLETE: &[(&str, Form, [usize; 8])] = &[
    ("rfc8166.txt", Form::Marked, [0, 0, 2, 10, 2, 0, 0, 0]),
    // The constants are 13 `const` definitions and the 4 sizes of section 2.4.
    ("rfc1813.txt", Form::Indented, [17, 23, 7, 83, 34, 2, 2, 28]),
    ("rfc1833.txt", Form::Indented, [12, 7, 0, 13, 0, 2, 3, 26]),
    ("rfc5531.txt", Form::Indented, [1, 0, 6, 5, 2, 1, 2, 3]),
    ("rfc5662.txt", Form::Marked, [239, 124, 28, 197, 61, 2, 2, 4]),
    ("rfc7863.txt", Form::Marked, [246, 131, 32, 236, 71, 2, 2, 4]),
    // Without the two definitions of `bool`, which is a keyword.
    ("rfc4506.txt", Form::Indented, [4, 3, 1, 4, 2, 0, 0, 0]),
];

#[test]
fn definitions_are_complete() {
    let Some(corpus) = corpus() else { return };
    for (name, form, expected) in COMPLETE {
        let path = corpus.join("rfc").join(name);
        let extract = rpcrdma_xdrgen::extract(SourceId(0), &source(&path));
        assert_eq!(extract.form, *form, "{name}");
        assert_eq!(count(&parsed(&path).1), *expected, "{name}");
    }
}

#[test]
fn comments_and_sections_are_kept() {
    let Some(corpus) = corpus() else { return };
    let (_, specification, _) = parsed(&corpus.join("rfc/rfc8166.txt"));
    let segment = &specification.definitions[0];
    assert_eq!(segment.section.as_deref(), Some("4.1.2. RPC-over-RDMA Version 1 XDR"));
    assert_eq!(segment.docs, ["Plain RDMA segment (Section 3.4.3)"]);
    let DefinitionKind::Struct(name, body) = &segment.kind else { panic!("{segment:?}") };
    assert_eq!((name.name.as_str(), body.fields.len()), ("xdr_rdma_segment", 3));
    assert!(body.fields.iter().all(|field| field.docs.len() == 1));
}

/// Documents that use names from other documents, and the documents that define these names.
const TOGETHER: &[(&str, &[&str])] = &[
    ("rfc5664.txt", &["rfc5662.txt"]),
    ("rfc8276.txt", &["rfc7863.txt"]),
    ("rfc8435.txt", &["rfc7863.txt"]),
    ("libnsl-nis.x", &["libnsl-nis_object.x"]),
    ("libnsl-nis_callback.x", &["libnsl-nis_object.x", "libnsl-nis.x"]),
];

/// A document, the codes and lines of its findings, and the reasons.
type Found = (&'static str, &'static [(&'static str, u32)], &'static str);

/// The findings in all documents that are not in `WITHOUT`: codes, lines and reasons. The findings about the
/// stray letter in `ypserv-ypxfrd.x`, and about procedures of RFC 1094 with undefined or omitted types, are
/// errors. All other findings are warnings.
const FOUND: &[Found] = &[
    (
        "rfc1094.txt",
        &[
            ("X200", 216),
            ("X200", 232),
            ("X200", 255),
            ("X200", 256),
            ("X200", 258),
            ("X116", 367),
            ("X200", 367),
            ("X200", 406),
            ("X200", 576),
            ("X200", 583),
            ("X200", 590),
            ("X100", 625),
            ("X111", 1325),
        ],
        "two declarations in an arm; `union x (type y)`; two undefined types and dependents; a missing `;`",
    ),
    (
        "rfc1813.txt",
        &[("X100", 303), ("X200", 1600), ("X213", 6067), ("X202", 6517), ("X200", 6565), ("X200", 6566)],
        "a template of a definition; errata; NLM names that another document defines",
    ),
    (
        "rfc2203.txt",
        &[("X110", 127), ("X110", 137), ("X100", 232), ("X200", 594), ("X111", 635)],
        "fields that are `...` or comments; a type that is explicitly unspecified",
    ),
    (
        "rfc4506.txt",
        &[("X200", 725), ("X114", 756), ("X114", 758), ("X201", 811)],
        "different example definitions of the same name; undefined types; a definition of `bool`",
    ),
    ("rfc5531.txt", &[("X130", 722)], "a name after a union"),
    ("rfc5662.txt", &[("X214", 3097)], "a union without arms for some values"),
    ("rfc5666.txt", &[("X116", 1202)], "two declarations in an arm, which are read as a struct"),
    ("rfc7863.txt", &[("X214", 3509)], "a union without arms for some values"),
    ("rfc8276.txt", &[("X104", 660)], "a comment inside a comment"),
    (
        "libnsl-nis_object.x",
        &[
            ("X207", 112),
            ("X207", 113),
            ("X207", 114),
            ("X207", 115),
            ("X207", 116),
            ("X207", 117),
            ("X207", 118),
            ("X207", 119),
        ],
        "several members with the same value",
    ),
    ("libtirpc-key_prot.x", &[("X132", 70)], "a string as a constant"),
    ("rpcsvc-key_prot.x", &[("X132", 70)], "a string as a constant"),
    ("ypserv-ypxfrd.x", &[("X119", 112)], "a stray letter after the comment of the last member of an enum"),
];

/// Returns a document, preceded by the documents that it requires.
fn with_others(path: &Path) -> Sources {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let others = TOGETHER.iter().filter(|(document, _)| *document == name).flat_map(|(_, others)| *others);
    let mut sources = Sources::default();
    others.for_each(|other| {
        sources.add(source(&path.with_file_name(other)));
    });
    sources.add(source(path));
    sources
}

#[test]
fn every_published_document_compiles() {
    let Some(corpus) = corpus() else { return };
    for path in files(&corpus.join("rfc")).into_iter().chain(files(&corpus.join("x"))) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let sources = with_others(&path);
        let generated = rpcrdma_xdrgen::generate(&sources, &rpcrdma_xdrgen::Options::module("out"));
        let last = sources.iter().last().unwrap().0;
        let found = generated.diagnostics.iter().filter(|found| found.span.source == last);
        let line = |found: &Diagnostic| {
            let source = sources.get(found.span.source).expect("a document of the run");
            source.line_column(found.span.start).line
        };
        let found: Vec<(&str, u32)> = found.map(|found| (found.code(), line(found))).collect();
        let expected = FOUND.iter().find(|(document, ..)| *document == name).map_or(&[][..], |found| found.1);
        let expected = if WITHOUT.contains(&name.as_str()) { &[("X001", 1)][..] } else { expected };
        let text = render(&generated.diagnostics, &sources, false);
        assert_eq!(found, expected, "{name}\n{text}");
        // `ypserv-ypxfrd.x` is not a published RFC, so its error does not become a warning. RFC 1094 is also
        // refused, since its program would lose READ, WRITE and other procedures.
        let refused =
            ["ypserv-ypxfrd.x", "rfc1094.txt"].contains(&name.as_str()) || WITHOUT.contains(&name.as_str());
        assert_eq!(
            (generated.has_errors(), generated.files.is_empty()),
            (refused, refused),
            "{name}\n{text}"
        );
        assert_eq!(
            rpcrdma_xdrgen::check(&sources, &rpcrdma_xdrgen::Options::module("out")).diagnostics,
            generated.diagnostics
        );
        if refused {
            let options =
                rpcrdma_xdrgen::Options { keep_going: true, ..rpcrdma_xdrgen::Options::module("out") };
            assert!(!rpcrdma_xdrgen::generate(&sources, &options).files.is_empty(), "{name}");
        }
    }
}

#[test]
fn an_extension_names_its_base() {
    let Some(corpus) = corpus() else { return };
    for (name, _) in TOGETHER {
        let folder = if name.ends_with(".x") { "x" } else { "rfc" };
        let mut alone = Sources::default();
        alone.add(source(&corpus.join(folder).join(name)));
        let found = rpcrdma_xdrgen::check(&alone, &rpcrdma_xdrgen::Options::module("out")).diagnostics;
        let errors: Vec<&str> =
            found.iter().filter(|found| found.is_error()).map(|found| found.code()).collect();
        assert!(!errors.is_empty() && errors.iter().all(|code| *code == "X200"), "{name}: {found:?}");
    }
}

#[test]
fn nfs_version_4_2_with_extended_attributes_is_complete() {
    let Some(corpus) = corpus() else { return };
    let module = |names: &[&str]| {
        let mut sources = Sources::default();
        names.iter().for_each(|name| {
            sources.add(source(&corpus.join("rfc").join(name)));
        });
        let (module, found) =
            rpcrdma_xdrgen::generate::lower(&sources, &rpcrdma_xdrgen::Options::module("out"));
        assert!(!has_errors(&found), "{}", render(&found, &sources, false));
        module
    };
    let (plain, extended) = (module(&["rfc7863.txt"]), module(&["rfc7863.txt", "rfc8276.txt"]));
    let size = |module: &rpcrdma_xdrgen::ir::Module, name: &str| {
        let found = module.types.iter().find(|one| one.name == name).expect("a type of the base");
        match &found.body {
            rpcrdma_xdrgen::ir::Body::Enum(members) => members.len(),
            rpcrdma_xdrgen::ir::Body::Union(union) => union.arms.len(),
            other => panic!("{name}: {other:?}"),
        }
    };
    for (name, more) in [("nfsstat4", 2), ("nfs_opnum4", 4), ("nfs_argop4", 4), ("nfs_resop4", 4)] {
        assert_eq!(size(&extended, name), size(&plain, name) + more, "{name}");
    }
}
