//! Lists the missing system packages that rpcrdma-verbs and rpcrdma-krb5 need.
//!
//! Without these packages, the crates that generate bindings fail with unhelpful messages from their tools. A
//! check in the build script of rpcrdma-verbs would be too late, since that script runs after the build
//! scripts of its dependencies. This separate crate has no dependencies, so its build script runs early.
//!
//! ```
//! let missing = rpcrdma_verbs_packages::missing();
//! if !missing.is_empty() {
//!     println!("apt-get install {}", missing.join(" "));
//! }
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// The pkg-config names of the libraries that rpcrdma-verbs needs, and their Debian packages.
const LIBRARIES: &[(&str, &str)] = &[
    ("libibverbs", "libibverbs-dev"),
    ("librdmacm", "librdmacm-dev"),
    ("libnl-3.0", "libnl-3-dev"),
    ("libnl-route-3.0", "libnl-route-3-dev"),
];

/// The programs that rpcrdma-verbs needs, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[("cmake", "cmake"), ("cc", "gcc"), ("python3", "python3")];

const KRB5_LIBRARIES: &[(&str, &str)] = &[("mit-krb5-gssapi", "libkrb5-dev")];
const KRB5_PROGRAMS: &[(&str, &str)] = &[("cc", "gcc")];

const LLVM: &[&str] = &["/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt"];

/// Returns the missing Debian packages that rpcrdma-verbs needs.
#[must_use]
pub fn missing() -> Vec<&'static str> {
    missing_of(LIBRARIES, PROGRAMS)
}

/// Returns the missing Debian packages that rpcrdma-krb5 needs.
#[must_use]
pub fn missing_for_krb5() -> Vec<&'static str> {
    missing_of(KRB5_LIBRARIES, KRB5_PROGRAMS)
}

fn missing_of(libraries: &[(&str, &'static str)], programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if runs("pkg-config", &["--version"]) {
        let lacks = |(name, _): &&(&str, &str)| !runs("pkg-config", &["--exists", name]);
        missing.extend(libraries.iter().filter(lacks).map(|(_, package)| *package));
    } else {
        missing.push("pkg-config");
        missing.extend(libraries.iter().map(|(_, package)| *package));
    }
    let lacks = |(name, _): &&(&str, &str)| !runs(name, &["--version"]);
    missing.extend(programs.iter().filter(lacks).map(|(_, package)| *package));
    if !has_libclang() {
        missing.push("libclang-dev");
    }
    missing
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let silent = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Searches for libclang in approximately the same places as bindgen. If `LIBCLANG_PATH` is set, returns true
/// without a search, because bindgen itself reports a wrong path.
fn has_libclang() -> bool {
    if env::var_os("LIBCLANG_PATH").is_some() {
        return true;
    }
    let printed = Command::new("llvm-config").arg("--libdir").stdin(Stdio::null()).output();
    let llvm = printed.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())).ok();
    llvm.is_some_and(|folder| holds_libclang(&folder, 0))
        || LLVM.iter().any(|folder| holds_libclang(Path::new(folder), 3))
}

fn holds_libclang(folder: &Path, depth: u32) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let name =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Excludes other libraries, such as `libclang-cpp.so`.
    let is_libclang = |path: &PathBuf| {
        let name = name(path);
        let version = name.strip_prefix("libclang").and_then(|rest| rest.split_once(".so"));
        version.is_some_and(|(version, _)| version.chars().all(|of| matches!(of, '-' | '.' | '0'..='9')))
    };
    let may_hold = |path: &&PathBuf| {
        ["llvm", "lib", "x86_64", "aarch64"].iter().any(|part| name(path).starts_with(part))
    };
    paths.iter().any(is_libclang)
        || depth > 0
            && paths.iter().filter(may_hold).any(|path| path.is_dir() && holds_libclang(path, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libclang_is_found_among_the_libraries_of_clang() {
        let folder = env::temp_dir().join(format!("rpcrdma-packages-{}", std::process::id()));
        let deep = folder.join("llvm-14/lib");
        fs::create_dir_all(&deep).expect("a directory");
        for other in ["libclang-cpp.so.14", "libclang.a", "libclangAST.so", "libclang_rt.so"] {
            fs::write(deep.join(other), "").expect("a file");
        }
        assert!(!holds_libclang(&folder, 3));
        for name in ["libclang.so", "libclang-14.so.1", "libclang-14.0.6.so", "libclang.so.1"] {
            fs::write(deep.join(name), "").expect("a file");
            assert!(holds_libclang(&folder, 3), "{name}");
            assert!(!holds_libclang(&folder, 1), "two directories deep");
            fs::remove_file(deep.join(name)).expect("removed");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
