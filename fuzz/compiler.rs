//! The fuzz targets for the compiler. `xdrgen/tests/fuzz_seeds.rs` also runs them on the documents in
//! `seeds/documents`.

use rpcrdma_xdrgen::diag::render;
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Generated, Options};

/// Checks arbitrary text as a document of each format. The span of a diagnostic must end at most one byte
/// past the end of the text.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for name in ["a.x", "a.txt", "a"] {
        let mut sources = Sources::default();
        sources.add(Source::new(name, text.as_ref()));
        let diagnostics = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
        for diagnostic in &diagnostics {
            let span = diagnostic.span;
            assert!(span.start <= span.end && span.end as usize <= text.len() + 1, "{diagnostic:?}");
        }
        let few: Vec<_> = diagnostics.into_iter().take(20).collect();
        assert_eq!(render(&few, &sources, false).is_empty(), few.is_empty());
    }
}

/// Compiles arbitrary text. All output must be valid Rust. If nothing is emitted, at least one error
/// must be reported.
///
/// A form feed on a line by itself separates two documents.
pub(crate) fn generate(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut sources = Sources::default();
    for (number, document) in text.splitn(2, "\n\u{c}\n").enumerate() {
        sources.add(Source::new(format!("{number}.txt"), document));
    }
    let plain = rpcrdma_xdrgen::generate(&sources, &Options::module("out"));
    assert_eq!(plain.files.is_empty(), plain.has_errors());
    check_is_rust(&plain);
    let options = Options { keep_going: true, ..Options::module("out") };
    let rest = rpcrdma_xdrgen::generate(&sources, &options);
    assert!(!rest.files.is_empty() || rest.has_errors());
    check_is_rust(&rest);
}

fn check_is_rust(generated: &Generated) {
    for (path, text) in &generated.files {
        if let Err(error) = syn::parse_file(text) {
            panic!("{}: {error}\n{text}", path.display());
        }
    }
}
