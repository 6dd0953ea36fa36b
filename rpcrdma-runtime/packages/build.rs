//! Fails the build where packages are missing that are required.
#![allow(clippy::print_stdout)] // how a build script speaks to cargo

#[path = "src/lib.rs"]
#[allow(dead_code, unreachable_pub, reason = "the library, of which this is a part")]
mod packages;

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/lib.rs");
    for name in ["PATH", "PKG_CONFIG_PATH", "LIBCLANG_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("CARGO_FEATURE_REQUIRED").is_none() {
        return;
    }
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "linux") {
        println!("cargo::error=rpcrdma-verbs (feature `verbs`) is for Linux");
        return;
    }
    let missing = packages::missing();
    if !missing.is_empty() {
        let packages = missing.join(" ");
        println!(
            "cargo::error=rpcrdma-verbs (feature `verbs`) lacks system packages; on Debian: apt-get install {packages}"
        );
    }
}
