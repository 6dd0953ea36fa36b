//! Fails the build when a generated file is not as it was generated. Made by `cargo xtask generate`.
#![allow(clippy::print_stdout)] // how a build script speaks to cargo

use std::path::Path;
use std::{env, fs};

/// The generated files, and the FNV-1a sum of each.
#[rustfmt::skip]
const FILES: &[(&str, u64)] = &[
    ("src/lib.rs", 0x89c9df49e81fe3c1),
];

fn main() {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    for (name, expected) in FILES {
        println!("cargo::rerun-if-changed={name}");
        let text = fs::read(Path::new(&package).join(name)).unwrap_or_default();
        let bytes = text.iter().filter(|byte| **byte != b'\r');
        let sum = bytes.fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if sum != *expected {
            println!("cargo::error={name} is not as it was generated: run `cargo xtask generate`");
        }
    }
}
