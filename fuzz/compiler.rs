//! What the targets do with a document. `xdrgen/tests/fuzz_seeds.rs` does the same with the documents in `seeds/documents`.

use rpcrdma_xdrgen::diag::render;
use rpcrdma_xdrgen::source::{Source, Sources};
use rpcrdma_xdrgen::{Generated, Options};

/// Any text, in each form that a document can have: it is read to its end, and what is found has a place in it.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for name in ["a.x", "a.txt", "a"] {
        let mut sources = Sources::default();
        sources.add(Source::new(name, text.as_ref()));
        let found = rpcrdma_xdrgen::check(&sources, &Options::module("out")).diagnostics;
        for one in &found {
            let span = one.span;
            assert!(span.start <= span.end && span.end as usize <= text.len() + 1, "{one:?}");
        }
        let few: Vec<_> = found.into_iter().take(20).collect();
        assert_eq!(render(&few, &sources, false).is_empty(), few.is_empty());
    }
}

/// Any text, compiled: what comes out is Rust, or something is wrong with the text and said. Two documents if the text has
/// a form feed on a line by itself.
pub(crate) fn generate(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut sources = Sources::default();
    for (number, document) in text.splitn(2, "\n\u{c}\n").enumerate() {
        sources.add(Source::new(format!("{number}.txt"), document));
    }
    let plain = rpcrdma_xdrgen::generate(&sources, &Options::module("out"));
    assert_eq!(plain.files.is_empty(), plain.has_errors());
    is_rust(&plain);
    let going_on = Options { keep_going: true, ..Options::module("out") };
    let rest = rpcrdma_xdrgen::generate(&sources, &going_on);
    assert!(!rest.files.is_empty() || rest.has_errors());
    is_rust(&rest);
}

fn is_rust(generated: &Generated) {
    for (path, text) in &generated.files {
        if let Err(error) = syn::parse_file(text) {
            panic!("{}: {error}\n{text}", path.display());
        }
    }
}
