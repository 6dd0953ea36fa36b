//! With the feature `required`, fails the build if system packages are missing.
#![allow(clippy::print_stdout)] // cargo reads directives from the standard output

#[path = "src/lib.rs"]
#[allow(dead_code, unreachable_pub, reason = "the build script uses only a part of the library")]
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
        println!("cargo::error=rpcrdma-verbs (feature `verbs`) supports Linux only");
        return;
    }
    let missing = packages::missing();
    if !missing.is_empty() {
        let packages = missing.join(" ");
        println!(
            "cargo::error=rpcrdma-verbs (feature `verbs`): missing system packages; on Debian: apt-get install {packages}"
        );
    }
}
