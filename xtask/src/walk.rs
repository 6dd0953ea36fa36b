//! `cargo xtask ci walk`: follows the guides in a separate package outside the workspace.
//!
//! The document, binding, manifest and programs are the code blocks of `docs/getting-started.md` and
//! `docs/types.md`. Only the registry's versions are replaced by the paths of the crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;

const GUIDE: &str = "docs/getting-started.md";
const TYPES: &str = "docs/types.md";

/// The imports of the guide's program, and of the same program over TCP.
const OVER_RDMA: &str = "use rpcrdma_runtime::{Client, Server};";
const OVER_TCP: &str = "use rpcrdma_runtime::{TcpClient as Client, TcpServer as Server};";

/// The line of the guide's build script that compiles the document, and its part for the binding.
const COMPILE: &str = ".compile()?";
const BINDING: &str = ".binding(\"specs/kv.ddp.toml\")";

/// A program that prints a value of the compiled document as JSON, from the crate created by `--crate`.
const WITH_SERDE: &str = r#"fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pair = kv_protocol::Pair { key: "answer".into(), value: vec![42; 2].into() };
    let text = serde_json::to_string(&pair)?;
    println!("{text}");
    assert_eq!(serde_json::from_str::<kv_protocol::Pair>(&text)?, pair);
    Ok(())
}
"#;

/// A mistake: a file, the correct text, the wrong text, the expected parts of the errors, and their number if
/// the compiler of Rust reports them.
struct Mistake {
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    says: &'static [&'static str],
    errors: Option<usize>,
}

/// One mistake of each kind.
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
        // Two calls, each with the same three errors (docs/decisions.md).
        says: &["error[E0277]", "has no Upper-Layer Binding", "write a binding"],
        errors: Some(6),
    },
    Mistake {
        file: "src/bin/types.rs",
        right: "key: SmallOpaque<64>,",
        wrong: "#[ddp_eligible]\n    key: u32,",
        says: &["src/bin/types.rs:", "`u32` cannot be DDP-eligible"],
        errors: None,
    },
    Mistake {
        file: "src/main.rs",
        right: "Result<GetResult, Reject>",
        wrong: "Result<Pair, Reject>",
        says: &["src/main.rs:", "expected"],
        errors: None,
    },
];

/// Follows the guides in a new directory, which is removed afterwards.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let directory = tempfile::Builder::new().prefix("walk").tempdir().map_err(|error| error.to_string())?;
    let walk =
        Walk { root, directory: directory.path().to_owned(), target: cargo::target(root).join("walk") };
    walk.write_package()?;
    walk.compile_crate()?;
    for program in ["walk", "tcp", "types", "serde"] {
        walk.cargo(&["run", "--quiet", "--bin", program])?;
    }
    let found: Vec<_> = MISTAKES.iter().filter_map(|mistake| walk.fails(mistake).err()).collect();
    cargo::report(&found)
}

struct Walk<'r> {
    root: &'r Path,
    directory: PathBuf,
    target: PathBuf,
}

impl Walk<'_> {
    /// Writes the files that the guides show.
    fn write_package(&self) -> Result<(), String> {
        let guide = read(&self.root.join(GUIDE))?;
        self.write("specs/kv.txt", block(&guide, "\n/// typedef")?)?;
        self.write("specs/kv.ddp.toml", block(&guide, "[[binding]]")?)?;
        let build = block(&guide, "// build.rs")?;
        self.write("build.rs", &replaced(build, COMPILE, &format!(".derive(\"serde\"){COMPILE}"))?)?;
        self.write("Cargo.toml", &self.manifest(block(&guide, "# Cargo.toml")?)?)?;
        let main = block(&guide, "// src/main.rs")?;
        self.write("src/main.rs", main)?;
        self.write("src/bin/tcp.rs", &replaced(main, OVER_RDMA, OVER_TCP)?)?;
        self.write("src/bin/types.rs", block(&read(&self.root.join(TYPES))?, "#[ddp_eligible]")?)?;
        self.write("src/bin/serde.rs", WITH_SERDE)?;
        // The versions of the workspace are known to work.
        self.write("Cargo.lock", &read(&self.root.join("Cargo.lock"))?)
    }

    /// Returns the guide's dependencies as a manifest, with a path for each of our crates.
    fn manifest(&self, guide: &str) -> Result<String, String> {
        let path = |directory: &str| format!("{{ path = {:?} }}", self.root.join(directory));
        let build =
            replaced(guide, "rpcrdma-xdrgen = \"0.1\"", &format!("rpcrdma-xdrgen = {}", path("xdrgen")))?;
        let with_serde = format!(
            "rpcrdma-runtime = {{ path = {:?}, features = [\"serde\"] }}",
            self.root.join("rpcrdma-runtime")
        );
        let dependencies = replaced(&build, "rpcrdma-runtime = \"0.1\"", &with_serde)?;
        let serde = "serde = \"1\"\nserde_json = \"1\"\nkv-protocol = { path = \"kv-protocol\", features = [\"serde\"] }\n\n[build-dependencies]";
        let dependencies = replaced(&dependencies, "\n[build-dependencies]", serde)?;
        let head =
            "[package]\nname = \"walk\"\nversion = \"0.1.0\"\nedition = \"2024\"\ndefault-run = \"walk\"\n";
        let patch = format!("[patch.crates-io]\nrpcrdma-runtime = {}\n", path("rpcrdma-runtime"));
        Ok(format!("{head}\n{dependencies}\n{patch}"))
    }

    /// Compiles the document to a crate, as `docs/compile.md` shows.
    fn compile_crate(&self) -> Result<(), String> {
        let [document, binding, output] = ["specs/kv.txt", "specs/kv.ddp.toml", "kv-protocol"]
            .map(|file| self.directory.join(file).display().to_string());
        let compiler =
            ["run", "--quiet", "--package", "rpcrdma-xdrgen", "--features", "cli", "--", "generate"];
        let options =
            ["--binding", &binding, "--crate", "kv-protocol", "--derive", "serde", "--output", &output];
        cargo::run(self.root, &[&compiler[..], &[&document], &options].concat())
    }

    /// Makes a mistake, checks the errors, and restores the file.
    fn fails(&self, mistake: &Mistake) -> Result<(), String> {
        let Mistake { file, right, wrong, says, errors } = mistake;
        let before = read(&self.directory.join(file))?;
        self.write(file, &replaced(&before, right, wrong)?)?;
        let output = self.command(&["build", "--bins"]).output().map_err(|error| error.to_string())?;
        self.write(file, &before)?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return Err(format!("{file}: `{wrong}` in place of `{right}` is accepted"));
        }
        let found = text.matches("error[").count();
        if let Some(count) = errors.filter(|count| *count != found) {
            return Err(format!(
                "{file}: `{wrong}` in place of `{right}`: {found} errors, expected {count}, in\n{text}"
            ));
        }
        match says.iter().find(|part| !text.contains(**part)) {
            Some(part) => Err(format!("{file}: `{wrong}` in place of `{right}`: no `{part}` in\n{text}")),
            None => Ok(()),
        }
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(), String> {
        cargo::succeed(self.command(arguments), arguments)
    }

    /// Returns a cargo command without settings of the workspace.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = cargo::command(&self.directory, arguments);
        let of_workspace = |name: &str| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "RPCRDMA_", "XDRGEN_"].iter().any(|part| name.starts_with(part))
        };
        for (name, _) in std::env::vars().filter(|(name, _)| of_workspace(name)) {
            command.env_remove(name);
        }
        command.env("CARGO_TARGET_DIR", &self.target);
        command
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

/// Returns the first code block of a guide that contains a text.
fn block<'g>(guide: &'g str, mark: &str) -> Result<&'g str, String> {
    let blocks = guide.split("```").skip(1).step_by(2);
    let found = blocks
        .filter_map(|block| block.split_once('\n'))
        .find(|(_, text)| format!("\n{text}").contains(mark));
    found.map(|(_, text)| text).ok_or_else(|| format!("the guide has no code block with `{}`", mark.trim()))
}

/// Replaces a text that must occur.
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
}
