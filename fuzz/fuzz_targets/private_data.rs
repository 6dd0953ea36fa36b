//! Runs `private_data` of `runtime.rs` under libFuzzer.

#![no_main]

#[path = "../runtime.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod runtime;

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtime::private_data(data));
