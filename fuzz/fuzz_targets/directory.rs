//! Runs `directory` of `files.rs` under libFuzzer.

#![no_main]

#[path = "../files.rs"]
#[expect(dead_code, reason = "used by other fuzz targets")]
mod files;

libfuzzer_sys::fuzz_target!(|data: &[u8]| files::directory(data));
