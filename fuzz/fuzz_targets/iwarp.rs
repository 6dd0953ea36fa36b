//! Runs `iwarp` of `runtime.rs` under libFuzzer.

#![no_main]

#[path = "../runtime.rs"]
#[expect(dead_code, reason = "used by other fuzz targets")]
mod runtime;

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtime::iwarp(data));
