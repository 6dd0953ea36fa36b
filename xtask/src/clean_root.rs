//! A root directory with Rust, a C linker, the C runtime and their shared libraries. `/dev`, `/etc`, `/proc`,
//! the Rust toolchain, the workspace, its target directory and cargo's directory are mounted there. Other
//! programs, headers and libraries of this machine are absent.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{cargo, tools};

/// The home directory in the root. It is empty when the step of the gate begins.
pub(crate) const HOME: &str = "/new-user";

/// The path of this program in the root.
const XTASK: &str = "/rpcrdma-xtask";

/// The directories that may contain the linker's programs.
const SEARCH_PATH: [&str; 2] = ["/usr/bin", "/bin"];

/// The linker's programs. rustc links with `cc`, which runs `ld`.
const PROGRAMS: [&str; 2] = ["cc", "ld"];

/// The files of the C runtime that rustc may link. Some exist only with old versions of glibc.
const RUNTIME: [&str; 25] = [
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
    "libdl.so",
    "libgcc.a",
    "libgcc_s.so",
    "libgcc_s.so.1",
    "libm.so",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.a",
    "libpthread.so",
    "librt.a",
    "librt.so",
    "libutil.a",
    "libutil.so",
];

/// A shell script that mounts directories at the same paths in the root, hides one directory, and runs a
/// command in the root. Its arguments are the root, the hidden directory, the directories to mount, `--` and
/// the command.
const ENTER: &str = r#"root=$1 hidden=$2; shift 2
while [ "$1" != -- ]; do mount --rbind "$1" "$root$1" || exit; shift; done
[ ! -d "$root$hidden" ] || mount -t tmpfs none "$root$hidden" || exit
shift; exec unshare --root="$root" -- "$@""#;

pub(crate) fn is_inside() -> bool {
    Path::new(XTASK).exists()
}

/// Returns the search path in the root. A step of the gate uses this path to find Rust, the linker, and the
/// programs that the step installs.
pub(crate) fn search_path() -> Result<PathBuf, String> {
    let own = [Path::new(HOME).join("bin"), rust()?.join("bin")];
    let path = env::join_paths(own.into_iter().chain(SEARCH_PATH.map(PathBuf::from)));
    path.map(PathBuf::from).map_err(|error| error.to_string())
}

/// Runs a step of the gate in a new root, which is removed afterwards. If this machine cannot create or
/// enter a root, records the step as not run.
pub(crate) fn run(workspace: &Path, step: &str) -> Result<(), String> {
    if let Some(why) = missing()? {
        not_run::record(step, why);
        return Ok(());
    }
    let root = tempfile::Builder::new().prefix("clean-root").tempdir().map_err(|error| error.to_string())?;
    let mounts = mounts(workspace)?;
    fill(root.path(), &mounts)?;
    cargo::succeed(enter(root.path(), &mounts, &[XTASK, "step", step])?, &["xtask", "step", step])
}

/// Returns what this machine lacks to create and enter a root, if anything.
fn missing() -> Result<Option<&'static str>, String> {
    if rust()?.join("include").exists() {
        return Ok(Some(
            "needs a Rust toolchain outside the system directories, for example one that rustup installed",
        ));
    }
    if PROGRAMS.iter().any(|program| find(program).is_none()) {
        return Ok(Some("needs `cc` and `ld` in /usr/bin (package gcc)"));
    }
    let probe = "mount -t tmpfs none /tmp && exec unshare --root=/ -- true";
    let check = unshare().args(["sh", "-c", probe]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can_mount = check.is_ok_and(|status| status.success());
    Ok((!can_mount).then_some("needs `unshare --root` (util-linux), `mount`, and the right to create mounts"))
}

/// Returns a command that runs its arguments in a separate mount namespace.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
}

fn enter(root: &Path, mounts: &[PathBuf], program: &[&str]) -> Result<Command, String> {
    let mut command = unshare();
    let cargo_home = cargo_home()?;
    // The programs in cargo's `bin` directory must not be visible.
    command.args(["sh", "-c", ENTER, "sh"]).arg(root).arg(cargo_home.join("bin"));
    command.args(mounts).arg("--").args(program).env("CARGO_HOME", cargo_home);
    Ok(command)
}

fn rust() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").ok_or("run this as `cargo xtask`")?;
    let toolchain = Path::new(&cargo).ancestors().nth(2);
    toolchain.map(Path::to_owned).ok_or_else(|| "CARGO is not an absolute path".to_owned())
}

/// Returns cargo's directory, which contains its configuration and its downloads.
pub(crate) fn cargo_home() -> Result<PathBuf, String> {
    let of_user = || env::home_dir().map(|user| user.join(".cargo"));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(of_user).ok_or("no home directory")?;
    std::path::absolute(home).map_err(|error| error.to_string())
}

fn mounts(workspace: &Path) -> Result<[PathBuf; 7], String> {
    let [dev, etc, proc] = ["/dev", "/etc", "/proc"].map(PathBuf::from);
    Ok([dev, etc, proc, rust()?, cargo_home()?, workspace.to_owned(), cargo::target(workspace)])
}

/// Creates the directories of the root. Copies the linker, the C runtime and this program, and the shared
/// libraries that they and Rust need.
fn fill(root: &Path, mounts: &[PathBuf]) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", root.display());
    for directory in mounts.iter().map(PathBuf::as_path).chain([Path::new("/tmp"), Path::new(HOME)]) {
        fs::create_dir_all(below(root, directory)).map_err(failed)?;
    }
    // On most distributions, these are links to directories below /usr.
    for name in ["bin", "lib", "lib64"] {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            symlink(target, root.join(name)).map_err(failed)?;
        }
    }
    let own = below(root, Path::new(XTASK));
    fs::copy("/proc/self/exe", &own).map_err(failed)?;
    let mut files = linker()?;
    let bin = rust()?.join("bin");
    let tools = ["cargo", "cargo-clippy", "clippy-driver", "rustc", "rustdoc"].map(|name| bin.join(name));
    let linked: Vec<&Path> = files.iter().chain(&tools).chain([&own]).map(PathBuf::as_path).collect();
    files.extend(libraries(&linked)?);
    // This file is often a link to a file below /run. Without the file, host names cannot be resolved.
    files.extend(fs::canonicalize("/etc/resolv.conf"));
    files.retain(|file| !mounts.iter().any(|directory| file.starts_with(directory)));
    files.iter().try_for_each(|file| copy(root, file).map_err(|error| format!("{}: {error}", file.display())))
}

fn linker() -> Result<Vec<PathBuf>, String> {
    let mut files: Vec<PathBuf> = PROGRAMS.iter().filter_map(|program| find(program)).collect();
    files.extend(path_from_cc("-print-prog-name", "collect2")?);
    // GCC's plug-in for `ld` is in the directory of `lto-wrapper`.
    if let Some(wrapper) = path_from_cc("-print-prog-name", "lto-wrapper")? {
        files.extend(Some(wrapper.with_file_name("liblto_plugin.so")).filter(|plugin| plugin.exists()));
        files.push(wrapper);
    }
    for name in RUNTIME {
        files.extend(path_from_cc("-print-file-name", name)?);
    }
    Ok(files)
}

fn find(program: &str) -> Option<PathBuf> {
    tools::find(program, SEARCH_PATH.map(PathBuf::from))
}

/// Asks `cc` for the path of a file. Returns `None` if the compiler does not have the file.
fn path_from_cc(option: &str, name: &str) -> Result<Option<PathBuf>, String> {
    let failed = |why: String| format!("`cc {option}={name}` failed: {why}");
    let cc = find("cc").ok_or("cc is not installed")?;
    let output = Command::new(cc).arg(format!("{option}={name}")).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
    Ok(Some(path).filter(|path| path.is_absolute()))
}

/// Returns the shared libraries that these files need. Ignores files that are not dynamically linked.
fn libraries(files: &[&Path]) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd").args(files).stderr(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run ldd: {error}"))?;
    paths(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the paths in the output of `ldd`. In the line `libm.so.6 => /lib/libm.so.6 (0x7f)`, the path is
/// `/lib/libm.so.6`.
fn paths(ldd: &str) -> Result<Vec<PathBuf>, String> {
    let lines = || ldd.lines().filter_map(|line| line.strip_prefix('\t'));
    if let Some(line) = lines().find(|line| line.ends_with("=> not found")) {
        return Err(format!("missing shared library: {line}"));
    }
    let names = lines().filter_map(|line| line.rsplit_once(" (")).map(|(name, _)| name);
    let files = names.map(|name| name.rsplit_once("=> ").map_or(name, |(_, path)| path));
    Ok(files.filter(|file| file.starts_with('/')).map(PathBuf::from).collect())
}

/// Copies a file into the root, below the canonical path of the file's directory. If the file is a link, the
/// copy has the content of the link's target.
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
    fn a_command_in_the_root_finds_only_rust_and_the_linker() {
        if let Some(why) = missing().unwrap() {
            return not_run::not_run(why);
        }
        let root = tempfile::tempdir().unwrap();
        let mounts = mounts(&cargo::root().unwrap()).unwrap();
        fill(root.path(), &mounts).unwrap();
        let code = |program: &Path| {
            let program = program.to_str().unwrap();
            let mut command = enter(root.path(), &mounts, &[program, "--version"]).unwrap();
            command.output().unwrap().status.code()
        };
        for present in [Path::new("/usr/bin/cc"), &rust().unwrap().join("bin/rustc")] {
            assert_eq!(code(present), Some(0), "{}", present.display());
        }
        // `unshare` exits with status 127 if the program that it should run does not exist.
        let rustup = cargo_home().unwrap().join("bin/rustc");
        for absent in [Path::new("/usr/bin/env"), Path::new("/bin/sh"), &rustup] {
            assert_eq!(code(absent), Some(127), "{}", absent.display());
        }
    }

    #[test]
    fn paths_of_libraries_are_found() {
        let ldd = "/usr/bin/ld:\n\tlinux-vdso.so.1 (0x7ffe)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n/usr/lib/crt1.o:\n\tnot a dynamic executable\n";
        let expected = ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from).to_vec();
        assert_eq!(paths(ldd), Ok(expected));
        assert!(paths("\tlibnone.so => not found\n").unwrap_err().contains("libnone.so"));
    }
}
