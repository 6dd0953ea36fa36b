//! Runs `client` of `peers.rs` under libFuzzer.

#![no_main]

#[path = "../../tests/src/gss.rs"]
#[allow(dead_code, unreachable_pub, reason = "a module of the tests")]
mod gss;
#[path = "../peers.rs"]
#[expect(dead_code, reason = "used by other fuzz targets")]
mod peers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| peers::client(data));
