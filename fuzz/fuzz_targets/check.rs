//! `check` of `compiler.rs`, led by libFuzzer.

#![no_main]

#[path = "../compiler.rs"]
#[expect(dead_code, reason = "the other target has the other half")]
mod compiler;

libfuzzer_sys::fuzz_target!(|data: &[u8]| compiler::check(data));
