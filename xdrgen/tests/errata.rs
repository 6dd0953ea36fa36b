//! `docs/errata.md`: the compiler's reports about published documents.
//!
//! `XDRGEN_BLESS=1 XDRGEN_CORPUS=FOLDER cargo test -p rpcrdma-xdrgen --test errata` updates the table.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, generate};

/// The published documents of the table, each followed by the documents whose definitions it uses.
const DOCUMENTS: &[&[&str]] = &[
    &["1094"],
    &["1813"],
    &["1833"],
    &["2203"],
    &["4506"],
    &["5403"],
    &["5531"],
    &["5662"],
    &["5664", "5662"],
    &["5666"],
    &["7863"],
    &["8166"],
    &["8276", "7863"],
    &["8435", "7863"],
];

const BEGIN: &str = "<!-- generated: errata -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn the_errata_of_published_documents_are_listed() {
    let Some(corpus) = std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from) else {
        return not_run::not_run("XDRGEN_CORPUS is not set: no published documents");
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errata.md");
    let text = fs::read_to_string(&path).expect("a readable document");
    let (head, rest) = text.split_once(BEGIN).expect("the beginning of the table");
    let (listed, tail) = rest.split_once(END).expect("the end of the table");
    let table = table(&corpus);
    if std::env::var_os("XDRGEN_BLESS").is_some() {
        fs::write(&path, [head, BEGIN, &table, END, tail].concat()).expect("the table can be written");
    } else {
        assert_eq!(listed, table, "{} is outdated: run this test with XDRGEN_BLESS=1", path.display());
    }
}

fn table(corpus: &Path) -> String {
    let mut table = String::from("| document | line | code | finding | omitted |\n|---|---|---|---|---|\n");
    for numbers in DOCUMENTS {
        let mut sources = Sources::default();
        for number in *numbers {
            let file = format!("rfc{number}.txt");
            let bytes = fs::read(corpus.join("rfc").join(&file)).expect("a readable document");
            sources.add(Source::new(file, String::from_utf8_lossy(&bytes)));
        }
        let (_, diagnostics) = generate::lower(&sources, &Options::module("out"));
        for diagnostic in diagnostics.iter().filter(|diagnostic| diagnostic.span.source.0 == 0) {
            let line = sources
                .get(diagnostic.span.source)
                .expect("a document of the run")
                .line_column(diagnostic.span.start)
                .line;
            let (code, title) = (diagnostic.code(), diagnostic.text().message.replace('|', "\\|"));
            let sign = if diagnostic.is_error() { " (error)" } else { "" };
            let omitted = diagnostic.omitted.as_ref().map(|omitted| omitted.name.as_str());
            let omitted = omitted.filter(|name| !name.is_empty()).map(|name| format!("`{name}`"));
            let omitted = omitted.unwrap_or_default();
            writeln!(table, "| RFC {} | {line} | {code}{sign} | {title} | {omitted} |", numbers[0])
                .expect("writing to a string never fails");
        }
    }
    table
}
