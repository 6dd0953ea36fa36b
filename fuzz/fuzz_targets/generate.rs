//! Any text, compiled: what comes out is Rust, or something is wrong with the text and said. Two documents if the text has
//! a form feed on a line by itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use xdrgen::Options;
use xdrgen::source::{Source, Sources};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut sources = Sources::default();
    for (number, document) in text.splitn(2, "\n\u{c}\n").enumerate() {
        sources.add(Source::new(format!("{number}.txt"), document));
    }
    let plain = xdrgen::generate(&sources, &Options::module("out"));
    assert_eq!(plain.files.is_empty(), plain.has_errors());
    // `X410` is a fault of the compiler's own: it made something that is no Rust.
    assert!(plain.diagnostics.iter().all(|found| found.code != "X410"), "{:?}", plain.diagnostics);
    let going_on = Options { keep_going: true, ..Options::module("out") };
    let rest = xdrgen::generate(&sources, &going_on);
    assert!(rest.diagnostics.iter().all(|found| found.code != "X410"), "{:?}", rest.diagnostics);
    assert!(!rest.files.is_empty() || rest.has_errors());
});
