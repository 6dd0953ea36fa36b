//! Runs `credentials` of `files.rs` under libFuzzer.

#![no_main]

#[path = "../files.rs"]
#[expect(dead_code, reason = "the other target uses the rest")]
mod files;

libfuzzer_sys::fuzz_target!(|data: &[u8]| files::credentials(data));
