//! Any text, in each form that a document can have: it is read to its end, and what is found has a place in it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use xdrgen::diag::render;
use xdrgen::source::{Source, Sources};
use xdrgen::Options;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for name in ["a.x", "a.txt", "a"] {
        let mut sources = Sources::default();
        sources.add(Source::new(name, text.as_ref()));
        let found = xdrgen::check(&sources, &Options::module("out")).diagnostics;
        for one in &found {
            let span = one.primary.span;
            assert!(span.start <= span.end && span.end as usize <= text.len() + 1, "{one:?}");
        }
        let few: Vec<_> = found.into_iter().take(20).collect();
        assert_eq!(render(&few, &sources, false).is_empty(), few.is_empty());
    }
});
