//! `generate` of `bodies.rs`, led by libFuzzer.

#![no_main]

#[path = "../bodies.rs"]
#[expect(dead_code, reason = "the other target has the other half")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::generate(data));
