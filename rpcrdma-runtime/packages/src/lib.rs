//! Says which system packages rpcrdma-verbs lacks. What builds the bindings fails without them, too, but in the words of its own
//! tools; and a build script of rpcrdma-verbs would run after that. So this is a package by itself, which depends on nothing: its
//! build script has run long before.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Libraries as pkg-config knows them, and the Debian packages that have them.
const LIBRARIES: &[(&str, &str)] = &[
    ("libibverbs", "libibverbs-dev"),
    ("librdmacm", "librdmacm-dev"),
    ("libnl-3.0", "libnl-3-dev"),
    ("libnl-route-3.0", "libnl-route-3-dev"),
];

/// Programs that have to be there, likewise.
const PROGRAMS: &[(&str, &str)] = &[("cmake", "cmake"), ("cc", "gcc"), ("python3", "python3")];

/// Where systems put libclang.
const LLVM: &[&str] = &["/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt"];

/// The Debian packages that are missing.
#[must_use]
pub fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if runs("pkg-config", &["--version"]) {
        let lacks = |(name, _): &&(&str, &str)| !runs("pkg-config", &["--exists", name]);
        missing.extend(LIBRARIES.iter().filter(lacks).map(|(_, package)| *package));
    } else {
        missing.push("pkg-config");
        missing.extend(LIBRARIES.iter().map(|(_, package)| *package));
    }
    let lacks = |(name, _): &&(&str, &str)| !runs(name, &["--version"]);
    missing.extend(PROGRAMS.iter().filter(lacks).map(|(_, package)| *package));
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

/// Looks where bindgen does, near enough: where a variable or LLVM's own program says, and a few directories deep where
/// systems have it. In doubt it is there: bindgen says more.
fn has_libclang() -> bool {
    if env::var_os("LIBCLANG_PATH").is_some() {
        return true;
    }
    let told = Command::new("llvm-config").arg("--libdir").stdin(Stdio::null()).output();
    let told = told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())).ok();
    told.is_some_and(|folder| holds_libclang(&folder, 0))
        || LLVM.iter().any(|folder| holds_libclang(Path::new(folder), 3))
}

fn holds_libclang(folder: &Path, depth: u32) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let name =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // `libclang-cpp.so` is another one.
    let is_it = |path: &PathBuf| {
        let name = name(path);
        let version = name.strip_prefix("libclang").and_then(|rest| rest.split_once(".so"));
        version.is_some_and(|(version, _)| version.chars().all(|of| matches!(of, '-' | '.' | '0'..='9')))
    };
    let may_hold = |path: &&PathBuf| {
        ["llvm", "lib", "x86_64", "aarch64"].iter().any(|part| name(path).starts_with(part))
    };
    paths.iter().any(is_it)
        || depth > 0
            && paths.iter().filter(may_hold).any(|path| path.is_dir() && holds_libclang(path, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libclang_is_found_and_other_libraries_of_clang_are_not() {
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
