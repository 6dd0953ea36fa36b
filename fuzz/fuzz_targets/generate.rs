//! Runs `generate` of `compiler.rs` under libFuzzer.

#![no_main]

#[path = "../compiler.rs"]
#[expect(dead_code, reason = "used by other fuzz targets")]
mod compiler;

libfuzzer_sys::fuzz_target!(|data: &[u8]| compiler::generate(data));
