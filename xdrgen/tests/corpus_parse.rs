//! Published documents, where they are at hand: set `XDRGEN_CORPUS` to a folder with `rfc/` and `x/`.

use std::path::{Path, PathBuf};

use xdrgen::ast::{DefinitionKind, Specification};
use xdrgen::diag::{Diagnostic, has_errors, render};
use xdrgen::extract::Form;
use xdrgen::source::{Source, Sources};

/// The folder with the documents; none, and a line that says so, where it is not named.
fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: XDRGEN_CORPUS does not name a folder of published documents");
    }
    folder
}

fn source(path: &Path) -> Source {
    let bytes = std::fs::read(path).unwrap();
    Source::new(path.file_name().unwrap(), String::from_utf8_lossy(&bytes).into_owned())
}

fn parsed(path: &Path) -> (Sources, Specification, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    sources.add(source(path));
    let mut parsed = xdrgen::parse(&sources);
    let (_, specification) = parsed.documents.remove(0);
    (sources, specification, parsed.diagnostics)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// How many of each there are.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    constants: usize,
    typedefs: usize,
    enums: usize,
    structs: usize,
    unions: usize,
    programs: usize,
    versions: usize,
    procedures: usize,
}

fn count(specification: &Specification) -> Counts {
    let mut counts = Counts::default();
    for definition in &specification.definitions {
        match &definition.kind {
            DefinitionKind::Const(_) => counts.constants += 1,
            DefinitionKind::Typedef(_) => counts.typedefs += 1,
            DefinitionKind::Enum(..) => counts.enums += 1,
            DefinitionKind::Struct(..) => counts.structs += 1,
            DefinitionKind::Union(..) => counts.unions += 1,
            DefinitionKind::Program(program) => {
                counts.programs += 1;
                counts.versions += program.versions.len();
                counts.procedures +=
                    program.versions.iter().map(|version| version.procedures.len()).sum::<usize>();
            }
            DefinitionKind::PassThrough(_) => {}
        }
    }
    counts
}

#[test]
fn print_counts() {
    let Some(corpus) = corpus() else { return };
    for path in files(&corpus.join("rfc")) {
        let (_, s, d) = parsed(&path);
        println!("{} {:?} {}", path.display(), count(&s), d.len());
    }
}
#[test]
fn dump() {
    let Some(corpus) = corpus() else { return };
    let (_, s, _) = parsed(&corpus.join("rfc/rfc8166.txt"));
    for d in &s.definitions {
        println!("{:?} {:?}\n{}", d.section, d.docs, d.text);
        if let DefinitionKind::Union(_, u) = &d.kind {
            println!("{:?}", u.arms.iter().map(|a| &a.declaration.docs).collect::<Vec<_>>());
        }
        if let DefinitionKind::Struct(_, u) = &d.kind {
            println!("{:?}", u.fields.iter().map(|a| &a.docs).collect::<Vec<_>>());
        }
        if let DefinitionKind::Enum(_, u) = &d.kind {
            println!("{:?}", u.members.iter().map(|a| &a.docs).collect::<Vec<_>>());
        }
    }
}
