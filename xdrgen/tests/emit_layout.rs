//! The output has the layout that `prettyplease` produces from a syntax tree.

use std::fs;
use std::path::{Path, PathBuf};

use rpcrdma_xdrgen::ir::Data;
use rpcrdma_xdrgen::names::Names;
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Options, generate};

/// Returns the lines to compare. Omits the file's imports, and also empty lines and `//` comments, which a
/// syntax tree does not contain.
fn lines(text: &str) -> Vec<&str> {
    let is_other = |line: &&str| line.trim().is_empty() || line.starts_with("// ");
    let mut in_use = false;
    let is_use = |line: &&str| {
        in_use |= line.starts_with("use ");
        let found = in_use;
        in_use &= !line.ends_with(';');
        found
    };
    let (_, lines): (Vec<&str>, Vec<&str>) = text.lines().filter(|line| !is_other(line)).partition(is_use);
    lines
}

/// Asserts that the output for valid documents has the layout that `prettyplease` produces. Returns false for
/// invalid documents.
#[track_caller]
fn is_laid_out(documents: &[&Path], options: &Options) -> bool {
    let mut sources = Sources::default();
    for path in documents {
        let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        sources.add(Source::new(*path, String::from_utf8_lossy(&text)));
    }
    let generated = generate(&sources, options);
    for (path, text) in generated.files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "rs"))
    {
        let mut file = syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        file.items.retain(|item| !matches!(item, syn::Item::Use(_)));
        let formatted = prettyplease::unparse(&file);
        let (ours, formatted) = (lines(text), lines(&formatted));
        let differs = ours.iter().zip(&formatted).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("{documents:?}, line {at}:\n{}\nand formatted:\n{}", ours[at], formatted[at]);
        }
        assert_eq!(ours.len(), formatted.len(), "{documents:?}");
    }
    !generated.files.is_empty()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

#[test]
fn own_documents() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let specs = package.parent().expect("the package is in a workspace").join("specs");
    for document in files(&specs, "txt") {
        let binding = document.with_extension("ddp.toml");
        // `NAME-WHAT.txt` extends `NAME.txt`, if the latter exists.
        let stem = document.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let base = stem.split_once('-').map(|(base, _)| specs.join(format!("{base}.txt")));
        let base = base.filter(|base| base.exists());
        let mut documents: Vec<&Path> = base.as_deref().into_iter().chain([document.as_path()]).collect();
        documents.extend(binding.exists().then_some(binding.as_path()));
        let crate_options = Options::package("rpcrdma-sample", "A sample.");
        let inside = Options { runtime: "crate".to_owned(), ..Options::no_std_module("sample") };
        let mut verbatim = Options { names: Names::Verbatim, ..Options::module("sample") };
        // `arbitrary` is omitted, because the formatter does not format expressions in attributes.
        verbatim.derives = ["serde", "a::B"].map(String::from).to_vec();
        // Two documents are emitted to a directory. In a single file, xdrgen does not count the indentation
        // of a document's module toward the line length, but the formatter does.
        let files = if base.is_some() { Options::directory(true) } else { Options::module("sample") };
        let inside =
            if base.is_some() { Options { runtime: "crate".to_owned(), ..files.clone() } } else { inside };
        let verbatim = Options { output: files.output.clone(), ..verbatim };
        let borrowed = Options { data: Data::Borrowed, ..files.clone() };
        for options in [files, crate_options, inside, verbatim, borrowed] {
            assert!(is_laid_out(&documents, &options), "{}", document.display());
        }
    }
    assert!(is_laid_out(&[&package.join("tests/language.x")], &Options::module("language")));
    let [album, binding] =
        ["album.x", "X327-items.toml"].map(|name| package.join("tests/diagnostics").join(name));
    assert!(is_laid_out(&[&album, &binding], &Options::module("album")));
}

#[test]
fn published_documents() {
    let Some(corpus) = std::env::var_os("XDRGEN_CORPUS").map(PathBuf::from) else {
        return not_run::not_run("XDRGEN_CORPUS is not set: no published documents");
    };
    let mut valid = 0;
    for document in [files(&corpus.join("rfc"), "txt"), files(&corpus.join("x"), "x")].concat() {
        valid += usize::from(is_laid_out(&[&document], &Options::module("sample")));
    }
    assert!(valid >= 20, "only {valid} documents are valid by themselves (minimum 20)");
    let rpc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs/rpc.txt");
    for rfc in ["rfc/rfc5662.txt", "rfc/rfc7863.txt"] {
        let documents = [corpus.join(rfc), rpc.clone()];
        let documents: Vec<&Path> = documents.iter().map(PathBuf::as_path).collect();
        let borrowed = Options { data: Data::Borrowed, ..Options::directory(true) };
        for options in [Options::directory(true), borrowed] {
            assert!(is_laid_out(&documents, &options), "{rfc}");
        }
    }
}

/// Returns a document with every kind of definition. Most names end in `_` and `letters` further characters.
fn with_names_of(letters: usize) -> String {
    let name = |what: &str| format!("{what}_{}", "abcdefghi_".repeat(9).get(..letters).unwrap_or_default());
    let (constant, bytes, list, kind) = (name("MOST"), name("bytes"), name("list"), name("kind"));
    let (one, two, program, version) = (name("ONE"), name("TWO"), name("PROGRAM"), name("VERSION"));
    let (record, choice, fixed, procedure) =
        (name("record"), name("choice"), name("fixed"), name("PROCEDURE"));
    format!(
        "const {constant} = 16;\ntypedef opaque {bytes}[{constant}];\ntypedef opaque {bytes}_b[12];\n\
         typedef {bytes} {fixed}[{constant}];\ntypedef string {list}<{constant}>;\ntypedef {bytes} {list}_b<{constant}>;\n\
         enum {kind} {{ {one} = 0, {two} = 1 }};\n\
         struct {record} {{ opaque {bytes}[{constant}]; {bytes} {list}[{constant}]; opaque {fixed}<{constant}>;\n\
         unsigned {kind}<{constant}>; int {choice}[3]; {record} *next; }};\n\
         union {choice} switch ({kind} {kind}) {{ case {one}: opaque {bytes}[{constant}];\n\
         case {two}: {record} {list}<{constant}>; }};\n\
         program {program} {{ version {version} {{ void NULL(void) = 0;\n\
         {choice} {procedure}({record}, {choice}, {list}) = 1; }} = 1; }} = 536870913;\n"
    )
}

#[test]
fn names_of_any_length_give_rust() {
    for letters in (0..90).filter(|letters| letters % 10 != 0) {
        let document = with_names_of(letters);
        for data in [Data::Bytes, Data::Borrowed] {
            for names in [Names::Rust, Names::Verbatim] {
                let mut sources = Sources::default();
                sources.add(Source::new("sample.x", document.as_str()));
                let generated = generate(&sources, &Options { names, data, ..Options::module("sample") });
                assert!(!generated.has_errors(), "{document}{:?}", generated.diagnostics);
                for (path, text) in &generated.files {
                    if let Err(error) = syn::parse_file(text) {
                        panic!(
                            "names of {letters} letters, {names:?}, {data:?}: {}: {error}\n{text}",
                            path.display()
                        );
                    }
                }
            }
        }
    }
}
