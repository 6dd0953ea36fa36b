//! `cargo xtask ci walk`: follows the quick start of README and the guides `getting-started`, `compile` and
//! `types` as a new user, in packages outside the workspace.
//!
//! The documents, bindings, manifests, programs and commands come from code blocks of `README.md` and
//! `docs/`. This step adds `[package]` to the manifests, and replaces the path of the clone, `../rpcrdma`,
//! with the path of the workspace.
//!
//! The step runs in a root directory with only Rust, a C linker and the C runtime (`clean_root.rs`). If a
//! guide needs any other program, header or library, the step fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{cargo, clean_root};

const README: &str = "README.md";
const GUIDE: &str = "docs/getting-started.md";
const COMPILE: &str = "docs/compile.md";
const TYPES: &str = "docs/types.md";

/// The front page of the runtime's rustdoc.
const FRONT_PAGE: &str = "rpcrdma-runtime/README.md";

/// Parts that a quick start must contain: the compiler's installation, a build script with a binding, the
/// binding, and calls over RDMA and TCP.
const QUICK_START: [&str; 5] = [
    "cargo install --locked ",
    ".binding(\"specs/kv.ddp.toml\")",
    "[[binding]]",
    "(Client::connect(",
    "(TcpClient::connect(",
];

/// The path of this repository's clone in README and the guides.
const CLONE: &str = "../rpcrdma/";

/// The call in the guide's build script that adds the binding.
const BINDING: &str = ".binding(\"specs/kv.ddp.toml\")";

/// A mistake: a file, the correct text, the wrong text, the expected parts of the errors, and, if checked,
/// the number of rustc's errors.
struct Mistake {
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    says: &'static [&'static str],
    errors: Option<usize>,
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        file: "specs/kv.txt",
        right: "pair entry;",
        wrong: "pear entry;",
        says: &["specs/kv.txt:", "error[X", "no type named `pear`", "similar name is defined: `pair`"],
        errors: None,
    },
    Mistake {
        file: "specs/kv.ddp.toml",
        right: "pair.value",
        wrong: "pair.worth",
        says: &["specs/kv.ddp.toml:", "error[X", "`worth`"],
        errors: None,
    },
    Mistake {
        file: "build.rs",
        right: BINDING,
        wrong: "",
        // One error for each of the two calls in src/main.rs (docs/decisions.md).
        says: &["error[E0277]", "has no Upper-Layer Binding", "write a binding"],
        errors: Some(2),
    },
    Mistake {
        file: "src/bin/owned.rs",
        right: "key: SmallOpaque<64>,",
        wrong: "#[ddp_eligible]\n    key: u32,",
        says: &["src/bin/owned.rs:", "`u32` cannot be DDP-eligible"],
        errors: None,
    },
    Mistake {
        file: "src/main.rs",
        right: "Result<GetResult, Reject>",
        wrong: "Result<Pair, Reject>",
        says: &["src/main.rs:", "error[E0271]: expected", "required by a bound in `Handler::get"],
        errors: None,
    },
];

const MISSING_FEATURE: Mistake = Mistake {
    file: "Cargo.toml",
    right: "\"kv-protocol\", features = [\"serde\"]",
    wrong: "\"kv-protocol\"",
    says: &["error[E0277]", "Serialize"],
    errors: None,
};

/// Changes to the guide's package for values above 8 MiB, the default limit of a call's data: a file, a text,
/// and its replacement.
const LONG_VALUES: [[&str; 3]; 4] = [
    ["specs/kv.txt", "value<1048576>", "value<16777216>"],
    ["src/main.rs", "100_003", "10_000_003"],
    ["src/bin/tcp.rs", "key.to_vec()", "key.repeat(2_000_000)"],
    ["src/bin/tcp.rs", "b\"answer\".to_vec()", "b\"answer\".repeat(2_000_000)"],
];

pub(crate) fn run(root: &Path) -> Result<(), String> {
    if !clean_root::is_inside() {
        return clean_root::run(root, "walk");
    }
    let walk = Walk { root, home: Path::new(clean_root::HOME), environment: environment(root)? };
    let guide = walk.guide()?;
    walk.readme()?.lint_and_run(&["walk"])?;
    let compile = walk.compile()?;
    compile.lint_and_run(&["walk"])?;
    guide.lint_and_run(&["walk", "tcp", "owned", "borrowed"])?;
    let found = MISTAKES.iter().map(|mistake| guide.fails(mistake));
    let found = found.chain([compile.fails(&MISSING_FEATURE), walk.invalid_name(&compile)]);
    let mut found: Vec<_> = found.filter_map(Result::err).collect();
    found.extend(guide.long_values().err().map(|error| format!("with values above 8 MiB: {error}")));
    cargo::report(&found)
}

fn environment(root: &Path) -> Result<[(&'static str, PathBuf); 5], String> {
    Ok([
        ("PATH", clean_root::search_path()?),
        ("HOME", clean_root::HOME.into()),
        ("CARGO_INSTALL_ROOT", clean_root::HOME.into()),
        ("CARGO_TARGET_DIR", cargo::target(root).join("clean-root")),
        ("CARGO_HOME", clean_root::cargo_home()?),
    ])
}

struct Walk<'r> {
    root: &'r Path,
    home: &'r Path,
    environment: [(&'static str, PathBuf); 5],
}

impl Walk<'_> {
    fn read(&self, file: &str) -> Result<String, String> {
        Ok(read(&self.root.join(file))?.replace(CLONE, &format!("{}/", self.root.display())))
    }

    /// Returns the workspace's lock file. The versions in this file are known to work.
    fn lock(&self) -> Result<String, String> {
        read(&self.root.join("Cargo.lock"))
    }

    /// Creates a package with the document of the guide `getting-started`.
    fn package(&self, name: &str, manifest: &str) -> Result<Package<'_>, String> {
        let package = Package { walk: self, directory: self.home.join(name) };
        let head = "[package]\nname = \"walk\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        package.write("Cargo.toml", &format!("{head}default-run = \"walk\"\n\n{manifest}"))?;
        package.write("specs/kv.txt", block(&self.read(GUIDE)?, "\n/// typedef")?)?;
        package.write("Cargo.lock", &self.lock()?)?;
        Ok(package)
    }

    fn readme(&self) -> Result<Package<'_>, String> {
        let readme = self.read(README)?;
        check_quick_starts(&readme, &self.read(FRONT_PAGE)?)?;
        if !self.read("rpcrdma-runtime/src/lib.rs")?.contains(r#"include_str!("../README.md")"#) {
            return Err(format!("{FRONT_PAGE} is not the front page of rpcrdma-runtime"));
        }
        let package = self.package("readme", block(&readme, "# Cargo.toml")?)?;
        package.write("specs/kv.ddp.toml", block(&readme, "[[binding]]")?)?;
        package.write("build.rs", block(&readme, "// build.rs")?)?;
        package.write("src/main.rs", block(&readme, "// src/main.rs")?)?;
        Ok(package)
    }

    fn guide(&self) -> Result<Package<'_>, String> {
        let (guide, types) = (self.read(GUIDE)?, self.read(TYPES)?);
        let package = self.package("guide", block(&guide, "# Cargo.toml")?)?;
        package.write("specs/kv.ddp.toml", block(&guide, "[[binding]]")?)?;
        package.write("build.rs", block(&guide, "// build.rs")?)?;
        package.write("src/main.rs", block(&guide, "// src/main.rs")?)?;
        package.write("src/bin/tcp.rs", block(&guide, "// src/bin/tcp.rs")?)?;
        package.write("src/bin/owned.rs", block(&types, "#[ddp_eligible]")?)?;
        package.write("src/bin/borrowed.rs", block(&types, "OpaqueRef<'a>")?)?;
        Ok(package)
    }

    /// Installs the compiler, runs the commands of the guide `compile`, and writes a package with the guide's
    /// build script that uses the emitted crate.
    fn compile(&self) -> Result<Package<'_>, String> {
        let guide = self.read(COMPILE)?;
        for line in block(&guide, "cargo install")?.lines() {
            self.shell(self.root, line)?;
        }
        let build = format!(
            "[build-dependencies]\nrpcrdma-xdrgen = {{ path = \"{}/xdrgen\" }}\n",
            self.root.display()
        );
        let package = self.package("compile", &(build + block(&guide, "# Cargo.toml")?))?;
        package.write("build.rs", block(&guide, "rpcrdma_xdrgen::Build")?)?;
        for file in ["specs/nfs3.txt", "specs/mount3.txt", "specs/nfs3.ddp.toml"] {
            package.write(file, &self.read(file)?)?;
        }
        package.write("specs/kv.ddp.toml", block(&self.read(GUIDE)?, "[[binding]]")?)?;
        package.write("src/main.rs", block(&guide, "// src/main.rs")?)?;
        for line in block(&guide, "rpcrdma-xdrgen check")?.lines() {
            self.shell(&package.directory, line)?;
        }
        let local = Package { walk: self, directory: package.directory.join("kv-local") };
        local.write("Cargo.lock", &self.lock()?)?;
        local.cargo(&["check", "--quiet"])?;
        Ok(package)
    }

    /// Runs the command of the guide `compile` that emits a crate, but with an invalid package name. Fails
    /// unless the command reports X402.
    fn invalid_name(&self, package: &Package<'_>) -> Result<(), String> {
        let guide = self.read(COMPILE)?;
        let commands = block(&guide, "rpcrdma-xdrgen check")?;
        let line = commands.lines().find(|line| line.contains(" --crate kv-protocol "));
        let line = line.ok_or("the guide `compile` has no command with `--crate kv-protocol`")?;
        let wrong = replaced(line, " --crate kv-protocol ", " --crate kv.protocol ")?;
        match self.shell(&package.directory, &wrong) {
            Ok(()) => Err(format!("`{wrong}` succeeded")),
            Err(text) if text.contains("error[X402]") => Ok(()),
            Err(text) => Err(format!("no `error[X402]` in {text}")),
        }
    }

    fn command(&self, directory: &Path, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(directory).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command of a guide. The command must not contain quotes.
    fn shell(&self, directory: &Path, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let mut command = self.command(directory, words.next().ok_or("an empty command")?);
        let output = command.args(words).output().map_err(|error| format!("cannot run `{line}`: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("`{line}` failed\n{text}")) }
    }
}

struct Package<'w> {
    walk: &'w Walk<'w>,
    directory: PathBuf,
}

impl Package<'_> {
    fn lint_and_run(&self, programs: &[&str]) -> Result<(), String> {
        self.cargo(&["clippy", "--quiet", "--bins", "--", "-D", "warnings"])?;
        for program in programs {
            self.cargo(&["run", "--quiet", "--bin", program])?;
        }
        Ok(())
    }

    /// Runs the guide's servers and clients with values above 8 MiB. The programs derive their limits on the
    /// data of a call from the document.
    fn long_values(&self) -> Result<(), String> {
        for [file, from, to] in LONG_VALUES {
            self.write(file, &replaced(&read(&self.directory.join(file))?, from, to)?)?;
        }
        ["walk", "tcp"].iter().try_for_each(|program| self.cargo(&["run", "--quiet", "--bin", program]))
    }

    fn fails(&self, mistake: &Mistake) -> Result<(), String> {
        let Mistake { file, right, wrong, says, errors } = mistake;
        let before = read(&self.directory.join(file))?;
        self.write(file, &replaced(&before, right, wrong)?)?;
        let mut command = self.walk.command(&self.directory, "cargo");
        let output = command.args(["build", "--bins"]).output().map_err(|error| error.to_string())?;
        self.write(file, &before)?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return Err(format!("{file}: `{wrong}` instead of `{right}` compiles"));
        }
        let found = text.matches("error[").count();
        if let Some(count) = errors.filter(|count| *count != found) {
            return Err(format!(
                "{file}: `{wrong}` instead of `{right}`: {found} errors, expected {count}, in\n{text}"
            ));
        }
        match says.iter().find(|part| !text.contains(**part)) {
            Some(part) => Err(format!("{file}: `{wrong}` instead of `{right}`: no `{part}` in\n{text}")),
            None => Ok(()),
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.walk.command(&self.directory, "cargo");
        command.args(arguments);
        cargo::succeed(command, arguments)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.directory.join(file);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(&path, text).map_err(failed)
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Checks that README and the front page of rustdoc contain [`QUICK_START`], and the same binding and build
/// script.
fn check_quick_starts(readme: &str, front_page: &str) -> Result<(), String> {
    for (file, text) in [(README, readme), (FRONT_PAGE, front_page)] {
        if let Some(part) = QUICK_START.iter().find(|part| !text.contains(**part)) {
            return Err(format!("{file} lacks `{part}`"));
        }
    }
    for mark in ["[[binding]]", "// build.rs"] {
        if block(readme, mark)? != block(front_page, mark)? {
            return Err(format!("{README} and {FRONT_PAGE} differ in the block with `{mark}`"));
        }
    }
    Ok(())
}

fn block<'g>(guide: &'g str, mark: &str) -> Result<&'g str, String> {
    let blocks = guide.split("```").skip(1).step_by(2);
    let found = blocks
        .filter_map(|block| block.split_once('\n'))
        .find(|(_, text)| format!("\n{text}").contains(mark));
    found.map(|(_, text)| text).ok_or_else(|| format!("no code block contains `{}`", mark.trim()))
}

/// Replaces every `from` in the text with `to`. Fails if `from` does not occur.
fn replaced(text: &str, from: &str, to: &str) -> Result<String, String> {
    if text.contains(from) { Ok(text.replace(from, to)) } else { Err(format!("no `{from}` in\n{text}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_their_text() {
        let guide =
            "Prose `x`.\n\n```text\n/// a\n```\n\nMore.\n\n```toml\n# Cargo.toml\n[dependencies]\n```\n";
        assert_eq!(block(guide, "# Cargo.toml").unwrap(), "# Cargo.toml\n[dependencies]\n");
        assert_eq!(block(guide, "\n/// a").unwrap(), "/// a\n");
        assert!(block(guide, "More").is_err(), "prose is not a block");
        assert!(replaced("a", "b", "c").is_err());
    }

    #[test]
    fn quick_starts_agree() {
        let parts = QUICK_START.join("\n");
        let page =
            |binding: &str| format!("{parts}\n```\n[[binding]]\n{binding}\n```\n```\n// build.rs\n```\n");
        assert_eq!(check_quick_starts(&page("a"), &page("a")), Ok(()));
        assert!(check_quick_starts(&page("a"), &page("b")).unwrap_err().contains("differ"));
        let without_tcp = page("a").replace("(TcpClient::connect(", "");
        assert!(check_quick_starts(&without_tcp, &page("a")).unwrap_err().contains("README.md lacks"));
    }

    #[test]
    fn commands_inherit_nothing() {
        let root = Path::new("/");
        let walk = Walk { root, home: root, environment: environment(root).unwrap() };
        let output = walk.command(root, "/usr/bin/env").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut names: Vec<_> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["CARGO_HOME", "CARGO_INSTALL_ROOT", "CARGO_TARGET_DIR", "HOME", "PATH"]);
    }
}
