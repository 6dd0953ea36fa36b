//! Published documents, where they are at hand: set `XDRGEN_CORPUS` to a folder with `rfc/` and `x/`.

use std::io::Write;
use std::path::{Path, PathBuf};

use xdrgen::ast::{DefinitionKind, Specification};
use xdrgen::diag::{Diagnostic, has_errors, render};
use xdrgen::extract::Form;
use xdrgen::parse::{Options, parse_with};
use xdrgen::source::{Source, SourceId, Sources};

/// The folder with the documents; none, and a line that says so, where it is not named.
fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        // Not `eprintln!`: the harness would keep that to itself.
        let notice = "skipped: XDRGEN_CORPUS does not name a folder of published documents";
        writeln!(std::io::stderr(), "{notice}").expect("standard error takes the notice");
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
    let mut parsed = xdrgen::parse(&sources);
    let (_, specification) = parsed.documents.remove(0);
    (sources, specification, parsed.diagnostics)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the corpus has this folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.sort();
    files
}

/// How many there are of: constants, typedefs, enums, structs, unions, programs, versions, procedures.
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

/// Documents that are wrong themselves: the code and line of what is found, and why.
const WRONG: &[(&str, &str, u32, &str)] = &[
    ("rfc8276.txt", "X100", 661, "a comment inside a comment: the second member is no longer inside one"),
    ("ypserv-ypxfrd.x", "X119", 112, "a stray letter behind a comment, before a member that is left out"),
];

/// Documents without definitions of XDR.
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
            errors.map(|found| (found.code, source.line_column(found.primary.span.start).line)).collect();
        let expected = WRONG.iter().filter(|(document, ..)| *document == name);
        let expected: Vec<(&str, u32)> = expected.map(|(_, code, line, _)| (*code, *line)).collect();
        assert_eq!(errors, expected, "{name}\n{}", render(&diagnostics, &sources, false));
        assert_eq!(specification.definitions.is_empty(), WITHOUT.contains(&name.as_str()), "{name}");
        assert!(specification.definitions.iter().all(|definition| definition.span.source == id));
    }
}

#[test]
fn every_x_file_parses_whatever_is_defined() {
    let Some(corpus) = corpus() else { return };
    for path in files(&corpus.join("x")) {
        for name in ["RPC_HDR", "RPC_XDR", "RPC_CLNT", "RPC_SVC"] {
            let mut sources = Sources::default();
            sources.add(source(&path));
            let options = Options { defined: [name.to_owned()].into() };
            let found = parse_with(&sources, &options).diagnostics;
            let wrong = WRONG.iter().any(|(document, ..)| path.ends_with(document));
            assert_eq!(has_errors(&found), wrong, "{}\n{}", path.display(), render(&found, &sources, false));
        }
    }
}

/// What the documents define, counted by hand or by `grep` on their definitions' first lines.
const COMPLETE: &[(&str, Form, [usize; 8])] = &[
    ("rfc8166.txt", Form::Marked, [0, 0, 2, 10, 2, 0, 0, 0]),
    // 13 `const`, and the 4 sizes of section 2.4.
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
        let extract = xdrgen::extract(SourceId(0), &source(&path));
        assert_eq!(extract.form, *form, "{name}");
        assert_eq!(count(&parsed(&path).1), *expected, "{name}");
    }
}

#[test]
fn comments_and_sections_come_along() {
    let Some(corpus) = corpus() else { return };
    let (_, specification, _) = parsed(&corpus.join("rfc/rfc8166.txt"));
    let segment = &specification.definitions[0];
    assert_eq!(segment.section.as_deref(), Some("4.1.2. RPC-over-RDMA Version 1 XDR"));
    assert_eq!(segment.docs, ["Plain RDMA segment (Section 3.4.3)"]);
    let DefinitionKind::Struct(name, body) = &segment.kind else { panic!("{segment:?}") };
    assert_eq!((name.name.as_str(), body.fields.len()), ("xdr_rdma_segment", 3));
    assert!(body.fields.iter().all(|field| field.docs.len() == 1));
}
