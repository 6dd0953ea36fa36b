//! A root directory with only Rust, a C linker and the C runtime. A step that runs in this root cannot use
//! other programs, headers or libraries of this machine.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{cargo, tools};

/// The environment variable that is set for a step in the root.
const INSIDE: &str = "RPCRDMA_CLEAN_ROOT";

/// The home directory in the root, which is empty.
pub(crate) const HOME: &str = "/home";

/// This program in the root.
const XTASK: &str = "/xtask";

/// The directories of the linker.
const SEARCH_PATH: [&str; 2] = ["/usr/bin", "/bin"];

/// The linker's programs. rustc links with `cc`, which runs the other programs.
const PROGRAMS: [&str; 2] = ["cc", "ld"];

/// The files of the C runtime that may be linked to a Rust program, and the plug-in of `ld`.
const RUNTIME: [&str; 22] = [
    "crt1.o",
    "Scrt1.o",
    "crti.o",
    "crtn.o",
    "crtbegin.o",
    "crtbeginS.o",
    "crtend.o",
    "crtendS.o",
    "libc.so",
    "libc.so.6",
    "libc_nonshared.a",
    "libdl.a",
    "libgcc.a",
    "libgcc_s.so",
    "libgcc_s.so.1",
    "libm.so",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.a",
    "librt.a",
    "libutil.a",
    "liblto_plugin.so",
];

/// Mounts directories at the same paths in the root, and runs a command there. The arguments are the root,
/// the directories, `--` and the command.
const ENTER: &str = r#"root=$1; shift
while [ "$1" != -- ]; do mount --rbind "$1" "$root$1" || exit; shift; done
shift; exec chroot "$root" "$@""#;

/// Returns true if this process runs in the root.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Returns the search path in the root: installed programs, Rust, and the linker.
pub(crate) fn search_path() -> Result<PathBuf, String> {
    let own = [Path::new(HOME).join("bin"), rust()?.join("bin")];
    let path = env::join_paths(own.into_iter().chain(SEARCH_PATH.map(PathBuf::from)));
    path.map(PathBuf::from).map_err(|error| error.to_string())
}

/// Runs a step of the gate in a new root, which is removed afterwards. The workspace, Rust and cargo's
/// downloads have the same paths there. If this is impossible here, records the step as not run.
pub(crate) fn run(workspace: &Path, step: &str) -> Result<(), String> {
    if rust()? == Path::new("/usr") {
        not_run::record(step, "needs a Rust toolchain outside /usr, for example from rustup");
        return Ok(());
    }
    let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("--mount").args(user);
        command
    };
    let check = unshare().arg("true").stderr(Stdio::null()).status();
    if !check.is_ok_and(|status| status.success()) {
        not_run::record(step, "needs `unshare` (package util-linux), and the right to create mounts");
        return Ok(());
    }
    let root = tempfile::Builder::new().prefix("clean-root").tempdir().map_err(|error| error.to_string())?;
    let shared = shared(workspace)?;
    fill(root.path(), &shared)?;
    let mut command = unshare();
    command.args(["sh", "-c", ENTER, "sh"]).arg(root.path()).args(&shared).arg("--");
    command.args([XTASK, "step", step]).env(INSIDE, "1");
    cargo::succeed(command, &["xtask", "step", step])
}

/// Returns the directory of the Rust toolchain.
fn rust() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").ok_or("run this as `cargo xtask`")?;
    let toolchain = Path::new(&cargo).ancestors().nth(2);
    toolchain.map(Path::to_owned).ok_or_else(|| "CARGO is not an absolute path".to_owned())
}

/// Returns cargo's directory. The root has only its configuration and its downloads, so that nothing is
/// downloaded twice.
pub(crate) fn cargo_home() -> Result<PathBuf, String> {
    let of_user = || env::home_dir().map(|user| user.join(".cargo"));
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(of_user)
        .ok_or_else(|| "no home directory".to_owned())
}

/// Returns the directories of this machine that are visible in the root.
fn shared(workspace: &Path) -> Result<[PathBuf; 7], String> {
    let target = cargo::target(workspace);
    let [dev, etc, proc] = ["/dev", "/etc", "/proc"].map(PathBuf::from);
    Ok([dev, etc, proc, rust()?, cargo_home()?.join("registry"), workspace.to_owned(), target])
}

/// Copies the linker, the C runtime, this program, and the shared libraries of all these and of Rust.
fn fill(root: &Path, shared: &[PathBuf]) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", root.display());
    for directory in shared.iter().map(PathBuf::as_path).chain([Path::new("/tmp"), Path::new(HOME)]) {
        fs::create_dir_all(below(root, directory)).map_err(failed)?;
    }
    // On most distributions, these are links to directories below /usr.
    for name in ["bin", "lib", "lib64"] {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            symlink(target, root.join(name)).map_err(failed)?;
        }
    }
    let config = cargo_home()?.join("config.toml");
    if config.exists() {
        copy(root, &config).map_err(|error| format!("{}: {error}", config.display()))?;
    }
    let own = Path::new("/proc/self/exe");
    fs::copy(own, below(root, Path::new(XTASK))).map_err(failed)?;
    let mut files = linker()?;
    let bin = rust()?.join("bin");
    let rust = ["cargo", "cargo-clippy", "clippy-driver", "rustc", "rustdoc"].map(|name| bin.join(name));
    let users: Vec<&Path> = files.iter().chain(&rust).map(PathBuf::as_path).chain([own]).collect();
    files.extend(libraries(&users)?);
    files.retain(|file| !shared.iter().any(|directory| file.starts_with(directory)));
    files.iter().try_for_each(|file| copy(root, file).map_err(|error| format!("{}: {error}", file.display())))
}

/// Returns the files of the linker and of the C runtime.
fn linker() -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for program in PROGRAMS {
        files.push(tools::find(program).ok_or_else(|| format!("{program} is not installed"))?);
    }
    for name in ["collect2", "lto-wrapper"] {
        files.extend(asked("-print-prog-name=", name)?);
    }
    for name in RUNTIME {
        files.extend(asked("-print-file-name=", name)?);
    }
    Ok(files)
}

/// Asks `cc` for the path of a file. Returns `None` if the compiler does not have the file.
fn asked(option: &str, name: &str) -> Result<Option<PathBuf>, String> {
    let mut cc = Command::new("cc");
    cc.arg(format!("{option}{name}"));
    let path = PathBuf::from(cargo::stdout(cc, &["cc", option, name])?.trim_end());
    Ok(Some(path).filter(|path| path.is_absolute()))
}

/// Returns the shared libraries of these files. Files without shared libraries are permitted.
fn libraries(files: &[&Path]) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd").args(files).stderr(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run ldd: {error}"))?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the paths in the output of `ldd`, such as `libm.so.6 => /lib/libm.so.6 (0x7f)`.
fn paths(ldd: &str) -> Vec<PathBuf> {
    let lines = ldd.lines().filter_map(|line| line.strip_prefix('\t'));
    lines.filter_map(|line| line.split(' ').find(|word| word.starts_with('/')).map(PathBuf::from)).collect()
}

/// Copies a file. Its directory in the root has the same path without links.
fn copy(root: &Path, file: &Path) -> io::Result<()> {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    let directory = below(root, &fs::canonicalize(directory)?);
    fs::create_dir_all(&directory)?;
    fs::copy(file, directory.join(name)).map(drop)
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_headers_and_no_other_programs() {
        let root = tempfile::tempdir().unwrap();
        fill(root.path(), &shared(&cargo::root().unwrap()).unwrap()).unwrap();
        let programs = fs::read_dir(root.path().join("usr/bin")).unwrap();
        let mut programs: Vec<_> = programs.map(|entry| entry.unwrap().file_name()).collect();
        programs.sort();
        assert_eq!(programs, PROGRAMS);
        assert!(!root.path().join("usr/include").exists());
    }

    #[test]
    fn paths_of_libraries_are_found() {
        let ldd = "/usr/bin/ld:\n\tlinux-vdso.so.1 (0x7ffe)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n/usr/lib/crt1.o:\n\tnot a dynamic executable\n";
        assert_eq!(paths(ldd), ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
    }
}
