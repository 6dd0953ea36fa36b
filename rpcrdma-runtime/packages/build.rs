//! With the feature `required` or `krb5`, fails the build if system packages are missing or the target is not
//! Linux.
#![allow(clippy::print_stdout)] // cargo reads directives from standard output

#[path = "src/lib.rs"]
#[allow(dead_code, unreachable_pub, reason = "the build script uses only a part of the library")]
mod packages;

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/lib.rs");
    for name in ["PATH", "PKG_CONFIG_PATH", "LIBCLANG_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("CARGO_FEATURE_REQUIRED").is_some() {
        require("rpcrdma-verbs (feature `devices`)", packages::missing);
    }
    if env::var_os("CARGO_FEATURE_KRB5").is_some() {
        require("rpcrdma-krb5 (feature `gssapi`)", packages::missing_for_krb5);
    }
}

fn require(user: &str, missing: fn() -> Vec<&'static str>) {
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "linux") {
        println!("cargo::error={user} supports Linux only");
        return;
    }
    let missing = missing();
    if !missing.is_empty() {
        let packages = missing.join(" ");
        println!("cargo::error={user}: missing system packages; on Debian: apt-get install {packages}");
    }
}
